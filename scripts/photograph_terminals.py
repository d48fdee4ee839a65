"""Photographs `odradek top` and `odradek lag --watch` in terminals of 80 x 24 and 200 x 50.

    python scripts/photograph_terminals.py      writes docs/top-80x24.svg and the others

It starts three brokers in memory with producers and consumers, runs each command in a
pseudo-terminal for some seconds, lets pyte draw what it writes, and writes the screen as SVG. So
the pictures show what a terminal showed, cell by cell. pyte is in the extra `dev`.
"""

import html
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fcntl import ioctl
from pathlib import Path
from struct import pack
from typing import NamedTuple

import pyte

DOCS = Path(__file__).parents[1] / "docs"
SIZES = ((80, 24), (200, 50))
_PROGRAM = [sys.executable, "-m", "odradek.cli"]
# Long enough for rates, for windows of commits, and for a group to be seen that has stopped.
_WATCHED_S = 30.0
_LOADED_S = 20.0
_READY = "odradek is ready at "

_CHARACTER, _LINE, _MARGIN = 7.4, 18, 16
_BACKGROUND, _FOREGROUND = "#0d1117", "#d0d7de"
_COLOURS = {
    "default": _FOREGROUND,
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",  # as pyte calls yellow
}


class Run(NamedTuple):
    """Cells of a line that look alike."""

    column: int
    text: str
    colour: str
    is_bold: bool
    is_reversed: bool


@contextmanager
def running(*words: str, is_read: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """Runs a command until the block ends. Its output is thrown away unless it is read."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*_PROGRAM, *words],
        stdout=subprocess.PIPE if is_read else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def odradek(*words: str) -> None:
    command = [*_PROGRAM, *words]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command


@contextmanager
def loaded_cluster() -> Iterator[str]:
    """Yields the address of brokers that have something to do."""
    with ExitStack() as stack:
        brokers = stack.enter_context(
            running("up", "--brokers", "3", "--port", "0", "--memory", is_read=True)
        )
        assert brokers.stdout is not None
        line = next(line for line in brokers.stdout if line.startswith(_READY))
        address = line.removeprefix(_READY).split(" ", 1)[0]
        connection = ("--bootstrap-server", address)
        for topic, partitions in (("orders", 6), ("clicks", 12), ("payments", 3), ("audit", 1)):
            odradek(
                "topics", *connection, "--create", "--topic", topic, "--partitions", str(partitions)
            )
        for topic, throughput, size in (
            ("orders", 800, 120), ("clicks", 2500, 80), ("payments", 150, 400), ("audit", 20, 900),
        ):  # fmt: skip
            stack.enter_context(
                running(
                    "producer-perf-test", "--topic", topic, "--num-records", "100000000",
                    "--record-size", str(size), "--throughput", str(throughput),
                    "--producer-props", f"bootstrap.servers={address}",
                )
            )  # fmt: skip
        for topic, group in (("orders", "billing"), ("clicks", "sessions"), ("payments", "ledger")):
            words = ("console-consumer", *connection, "--topic", topic, "--group", group)
            stack.enter_context(running(*words))
        # It reads some records, and is not seen again.
        odradek("console-consumer", *connection, "--topic", "orders", "--group", "search-index",
                "--from-beginning", "--max-messages", "500")  # fmt: skip
        time.sleep(_LOADED_S)
        yield address


def photograph(words: list[str], columns: int, lines: int) -> pyte.Screen:
    """Runs a command in a terminal, and returns the screen after some seconds."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, pack("HHHH", lines, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*_PROGRAM, *words], stdin=slave, stdout=slave, stderr=slave, env=environment,
        start_new_session=True,
    )  # fmt: skip
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    end_s = time.monotonic() + _WATCHED_S
    last_s = time.monotonic()
    try:
        # A frame is whole when nothing has come for a moment.
        while time.monotonic() < end_s or time.monotonic() - last_s < 0.3:
            if select.select([master], [], [], 0.1)[0]:
                stream.feed(os.read(master, 65_536))
                last_s = time.monotonic()
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
    return screen


def runs(screen: pyte.Screen, row: int) -> list[Run]:
    found: list[Run] = []
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        colour = _COLOURS.get(cell.fg, _FOREGROUND)
        same = found and found[-1][2:] == (colour, cell.bold, cell.reverse)
        if same:
            found[-1] = found[-1]._replace(text=found[-1].text + cell.data)
        else:
            found.append(Run(column, cell.data, colour, cell.bold, cell.reverse))
    return [run for run in found if run.text.strip() or run.is_reversed]


def draw(screen: pyte.Screen, title: str) -> str:
    width = round(screen.columns * _CHARACTER + 2 * _MARGIN)
    height = screen.lines * _LINE + 2 * _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.3"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>',
    ]
    for row in range(screen.lines):
        for run in runs(screen, row):
            parts += _drawn(run, row)
    return "\n".join([*parts, "</svg>\n"])


def _drawn(run: Run, row: int) -> list[str]:
    x, y = _MARGIN + run.column * _CHARACTER, _MARGIN + row * _LINE
    length = len(run.text) * _CHARACTER
    colour, drawn = run.colour, []
    if run.is_reversed:
        drawn.append(
            f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{_LINE}" fill="{colour}"/>'
        )
        colour = _BACKGROUND
    weight = ' font-weight="bold"' if run.is_bold else ""
    # The length keeps columns below each other in whatever font the reader has.
    place = f'x="{x:.1f}" y="{y + _LINE - 5}" fill="{colour}" textLength="{length:.1f}"'
    shown = html.escape(run.text, quote=False)
    return [*drawn, f'<text {place}{weight} xml:space="preserve">{shown}</text>']


def main() -> None:
    with loaded_cluster() as address:
        for columns, lines in SIZES:
            for name, words in (("top", ["top"]), ("lag", ["lag", "--watch"])):
                screen = photograph([*words, "--bootstrap-server", address], columns, lines)
                title = f"odradek {' '.join(words)}, {columns} x {lines}"
                (DOCS / f"{name}-{columns}x{lines}.svg").write_text(draw(screen, title))


if __name__ == "__main__":
    main()
