"""Carries out `odradek logs`: chooses the logs and the lines, and prints them."""

import argparse
import json
import re
import sys
from datetime import UTC, datetime
from time import sleep
from typing import Final

from odradek.cli.running.logs import LEVELS
from odradek.local.cluster_directory import brokers_in, running_broker
from odradek.local.log_lines import Follower, LogLine, Source, Wanted, last_lines, sources_of
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.terminal import print_json, shows_colours
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

# How often files are looked at while they are followed.
_LOOK_S: Final = 0.2
_DEFAULT_PLACES: Final = ("odradek-data", "odradek-local")
# Cyan, green, magenta, blue, and the bright ones of them: yellow and red are for levels.
_SOURCE_COLOURS: Final = ("36", "32", "35", "34", "96", "92", "95", "94")
_LEVEL_COLOURS: Final = {"WARN": "33", "ERROR": "31", "FATAL": "31"}


def show_logs(arguments: argparse.Namespace) -> int:
    disk = OsDisk()
    places = arguments.places or [_default_place(disk)]
    sources = [source for place in places for source in sources_of(disk, place)]
    sources = _chosen(sources, arguments.broker)
    if not arguments.follow:
        _require_files(disk, sources)
    wanted = _wanted(arguments)
    show = _Printer(sources, as_json=arguments.json).show
    # Opened before the older lines are read, so that no line is missed in between.
    follower = Follower(sources, wanted) if arguments.follow else None
    shown = last_lines(disk, sources, arguments.lines, wanted)
    show(shown)
    if follower is None:
        return 0
    try:
        # A line that was written meanwhile is in both.
        already = set(shown)
        show([line for line in follower.news() if line not in already])
        while True:
            show(follower.news())
            sleep(_LOOK_S)
    except KeyboardInterrupt:
        return 0
    finally:
        follower.close()


def _default_place(disk: OsDisk) -> str:
    found = [place for place in _DEFAULT_PLACES if disk.exists(place)]
    running = [place for place in found if _is_running(disk, place)]
    choice = running or found
    if len(choice) == 1:
        return choice[0]
    if not choice:
        raise CommandFailed(
            f"there is neither {' nor '.join(_DEFAULT_PLACES)} here; name the data directory of"
            " the brokers, as in: odradek logs DIR"
        )
    raise UsageError(f"there are {' and '.join(choice)}; name one: odradek logs {choice[0]}")


def _is_running(disk: OsDisk, place: str) -> bool:
    directories = [place, *(f"{place}/broker-{number}" for number in brokers_in(disk, place))]
    return any(running_broker(disk, directory) is not None for directory in directories)


def _chosen(sources: list[Source], names: list[str]) -> list[Source]:
    known = [source.name for source in sources]
    if not names:
        return sources
    wanted = {name if name in known else f"broker-{name}" for name in names}
    missing = wanted - set(known)
    if missing:
        raise UsageError(f"there is no {missing.pop()}; there are {', '.join(known)}")
    return [source for source in sources if source.name in wanted]


def _require_files(disk: OsDisk, sources: list[Source]) -> None:
    """Raises if no broker has written a log at any of the places that settings name."""
    if any(disk.exists(path) for source in sources for _, path in source.paths()):
        return
    places = ", ".join(source.directory for source in sources)
    raise CommandFailed(
        f"there are no logs in {places} yet: no broker has run with these settings, or it wrote"
        " its logs elsewhere (odradek.logs.directory, --log-directory); -f waits for some"
    )


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """Returns what decides about each line, from the flags."""
    levels = LEVELS if arguments.level is None else LEVELS[LEVELS.index(arguments.level) :]
    try:
        pattern = re.compile(arguments.grep or "")
    except re.error as error:
        raise UsageError(
            f"--grep {arguments.grep!r} is not a regular expression: {error}; write \\ before a"
            " character such as ( or [ that stands for itself"
        ) from None
    since = ""
    if arguments.since is not None:
        start_s = SystemClock().now_ms() / 1000 - arguments.since
        since = f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%M:%S}"

    def wanted(line: LogLine) -> bool:
        return line.level in levels and line.moment >= since and bool(pattern.search(line.text))

    return wanted


class _Printer:
    """Prints lines, each with the name of its broker if there are several."""

    def __init__(self, sources: list[Source], *, as_json: bool) -> None:
        names = list(dict.fromkeys(source.name for source in sources))
        self._width = max(map(len, names)) if len(names) > 1 else 0
        self._colours = dict(zip(names, _SOURCE_COLOURS * (len(names) // 8 + 1), strict=False))
        self._is_coloured = shows_colours()
        self._as_json = as_json

    def show(self, lines: list[LogLine]) -> None:
        for line in lines:
            if self._as_json:
                print_json(_as_object(line))
            else:
                for number, part in enumerate(line.text.split("\n")):
                    sys.stdout.write(f"{self._prefix(line, number)}{self._shown(part, line)}\n")
        if lines:
            sys.stdout.flush()

    def _prefix(self, line: LogLine, number: int) -> str:
        if not self._width:
            return ""
        name = (line.source if number == 0 else "").ljust(self._width)
        if self._is_coloured:
            return f"\x1b[{self._colours[line.source]}m{name}\x1b[0m | "
        return f"{name} | "

    def _shown(self, text: str, line: LogLine) -> str:
        colour = _LEVEL_COLOURS.get(line.level)
        if not self._is_coloured or colour is None:
            return text
        return f"\x1b[{colour}m{text}\x1b[0m"


def _as_object(line: LogLine) -> dict[str, object]:
    found: dict[str, object] = {"broker": line.source, "file": line.file}
    if line.text.startswith("{"):
        return found | dict(json.loads(line.text))
    message = line.text.split("] ", 1)[1].split(" ", 1)[1]
    return found | {"timestamp": f"{line.moment}Z", "level": line.level, "message": message}
