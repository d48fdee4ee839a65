"""Reads the application logs of the brokers on this machine, for `odradek logs`.

A source is one broker (or the metadata store of a cluster) and the directory of its log files.
Lines come in both formats, text and JSON. A message is one line, and the lines of a traceback
follow it, indented: they stay together.

Lines are merged by their times, which all brokers of a machine take from one clock. While files are
followed, the lines that are new at each look are merged; a broker writes a line at once, so nothing
older comes later than by one look.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import BinaryIO, Final, NamedTuple

from odradek.local.cluster_directory import brokers_in
from odradek.telemetry.logs import FILES, SERVER_LOG
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.files import not_permitted
from odradek.world.disk import Disk

STORE_LOG: Final = "metadata.log"
_NAMES: Final = (SERVER_LOG, *FILES.values())
_TEXT: Final = re.compile(r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3})\] ([A-Z]+) ")
# How much of the end of a file is read first, and how much more each time after that.
_FIRST_BYTES: Final = 64 * 1024
_GROWTH: Final = 4


class LogLine(NamedTuple):
    """One message. `moment` is its time in UTC, as in 2026-11-15T11:25:46.316: these sort as texts.
    `text` is what is in the file, with the lines of a traceback."""

    moment: str
    source: str
    file: str
    level: str
    text: str


class Source(NamedTuple):
    """Where log files are. `name` tells sources apart, as in broker-2."""

    name: str
    directory: str
    files: tuple[str, ...] = _NAMES

    def paths(self) -> Iterator[tuple[str, str]]:
        for file in self.files:
            yield file, f"{self.directory}/{file}"


Wanted = Callable[[LogLine], bool]


# Finding logs


def sources_of(disk: Disk, place: str) -> list[Source]:
    """Returns the sources at a place: the data directory of a broker or of a cluster, a settings
    file, or a directory of logs such as /var/log/odradek. Raises `CommandFailed` if there is none.
    """
    if (line := not_permitted(place)) is not None:
        raise CommandFailed(line)
    if os.path.isfile(place):
        return [_of_settings(place, os.path.basename(place).removesuffix(".properties"))]
    brokers = brokers_in(disk, place)
    if brokers:
        found = [
            _of_settings(f"{place}/broker-{number}/server.properties", f"broker-{number}")
            for number in brokers
        ]
        if disk.exists(f"{place}/{STORE_LOG}"):
            found.append(Source("store", place, (STORE_LOG,)))
        return found
    found = []
    for directory in (place, *_directories_in(place)):
        if disk.exists(f"{directory}/{SERVER_LOG}"):
            found.append(Source(os.path.basename(os.path.abspath(directory)), directory))
    if not found:
        raise CommandFailed(
            f"there is no {SERVER_LOG} in {place}; name the data directory of a broker or a"
            " cluster, its server.properties, or the directory in its odradek.logs.directory"
        )
    return found


def _directories_in(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())
    except OSError as error:
        raise CommandFailed(
            f"cannot read {place}: {(error.strerror or str(error)).lower()}; name a directory of"
            " logs, as in: odradek logs /var/log/odradek"
        ) from None


def _of_settings(path: str, name: str) -> Source:
    settings = read_properties(path)
    data = settings.get("log.dirs") or settings.get("log.dir") or os.path.dirname(path)
    directory = settings.get("odradek.logs.directory") or data.split(",")[0].strip()
    return Source(name, directory.rstrip("/"))


# Reading lines


def lines_in(block: bytes, source: str, file: str) -> list[LogLine]:
    """Returns the messages of a block that begins and ends between lines. Lines before the first
    message belong to one before the block, and are left out."""
    found: list[LogLine] = []
    for line in block.decode("utf-8", "replace").splitlines():
        head = _head(line)
        if head is not None:
            found.append(LogLine(head[0], source, file, head[1], line))
        elif found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line}")
    return found


def _head(line: str) -> tuple[str, str] | None:
    """Returns the moment and the level of a message, or None if no message begins here."""
    match = _TEXT.match(line)
    if match is not None:
        return f"{match[1]}T{match[2]}.{match[3]}", match[4]
    if line.startswith("{"):
        try:
            fields = json.loads(line)
            return str(fields["timestamp"]).removesuffix("Z"), str(fields["level"])
        except (ValueError, KeyError):
            return None
    return None


def last_lines(disk: Disk, sources: list[Source], count: int, wanted: Wanted) -> list[LogLine]:
    """Returns the newest lines of all sources that are wanted, merged, the oldest first. Files that
    were closed (server.log.1 and so on) are read if the newest ones have too few."""
    if not count:
        return []
    each = [
        _last_of_file(disk, path, count, wanted, source.name, file)
        for source in sources
        for file, path in source.paths()
    ]
    return list(merge(*each, key=attrgetter("moment")))[-count:]


def _last_of_file(  # noqa: PLR0917 - what to read, and what it is called
    disk: Disk, path: str, count: int, wanted: Wanted, source: str, file: str
) -> list[LogLine]:
    found: list[LogLine] = []
    number = 0
    while len(found) < count and disk.exists(path if not number else f"{path}.{number}"):
        blocks = _blocks_at_end(disk, path if not number else f"{path}.{number}")
        older: list[LogLine] = []
        for block in blocks:
            older = [line for line in lines_in(block, source, file) if wanted(line)]
            if len(older) + len(found) >= count:
                break
        found = older + found
        number += 1
    return found[-count:]


def _blocks_at_end(disk: Disk, path: str) -> Iterator[bytes]:
    """Yields longer and longer ends of a file, until it yields the whole file."""
    try:
        file = disk.open(path, writable=False)
    except OSError:
        return  # It was rolled meanwhile, or another user's broker wrote it.
    try:
        size, length = file.size(), _FIRST_BYTES
        while True:
            start = max(0, size - length)
            block = file.read_at(start, size - start)
            yield block if not start else block.partition(b"\n")[2]
            if not start:
                return
            length *= _GROWTH
    finally:
        file.close()


# Following


class Follower:
    """Follows the files of all sources, also those that are created later or are rolled."""

    def __init__(self, sources: list[Source], wanted: Wanted) -> None:
        """From here on everything that is written is new."""
        self._wanted = wanted
        self._files = [
            _FollowedFile(source.name, file, path)
            for source in sources
            for file, path in source.paths()
        ]

    def news(self) -> list[LogLine]:
        """Returns the lines that were written since the last call, merged."""
        fresh = chain.from_iterable(file.news() for file in self._files)
        return sorted(filter(self._wanted, fresh), key=attrgetter("moment"))

    def close(self) -> None:
        for file in self._files:
            file.close()


class _FollowedFile:
    def __init__(self, source: str, name: str, path: str) -> None:
        self._source = source
        self._name = name
        self._path = path
        self._rest = b""
        self._file = self._opened()
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def _opened(self) -> BinaryIO | None:
        try:
            return open(self._path, "rb")
        except OSError:
            return None

    def news(self) -> list[LogLine]:
        lines = self._read()
        if self._is_replaced():
            # What was written before the file was renamed has been read above, unless the broker
            # wrote in between.
            lines += self._read()
            self.close()
            self._file, self._rest = self._opened(), b""
            lines += self._read()
        return lines

    def _read(self) -> list[LogLine]:
        if self._file is None:
            return []
        block, newline, rest = (self._rest + self._file.read()).rpartition(b"\n")
        self._rest = rest
        return lines_in(block + newline, self._source, self._name)

    def _is_replaced(self) -> bool:
        """Returns whether another file than the open one is at the path now."""
        try:
            there = os.stat(self._path)
        except OSError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file.fileno())
        return (there.st_ino, there.st_dev) != (mine.st_ino, mine.st_dev)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
