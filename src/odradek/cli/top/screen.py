"""The terminal: its size, its modes, what is on it, and the keys that are pressed.

Plain control sequences that every terminal of today knows, and neither `curses` nor a library: the
page is a list of lines in any case, and only lines that have changed are written
(docs/decisions/0043-terminal-page.md).
"""

import os
import re
import sys
from types import TracebackType
from typing import Final, Self

from odradek.cli.top.styled import Line, written
from odradek.tools.terminal import shows_colours

# The other screen of the terminal, so that what was there before comes back; no cursor, no
# wrapping of lines that are too long for a moment while the window is being resized.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
# Terminals that know it show a frame as a whole; the others ignore it.
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
_DEFAULT_SIZE: Final = (80, 24)

_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])")
_KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1bOH": "home",
    b"\x1bOF": "end",
    b"\x1b[1~": "home",
    b"\x1b[4~": "end",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[Z": "backtab",
}
_LETTERS: Final = {
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
}


def keys_in(data: bytes) -> list[str]:
    """Returns the keys that were pressed, by the bytes that the terminal sent: letters as they are,
    others by name. Keys that have no name are left out."""
    keys: list[str] = []
    while data:
        sequence = _SEQUENCE.match(data)
        if sequence is not None:
            name = _KEYS.get(sequence[0])
            keys += [] if name is None else [name]
            data = data[sequence.end() :]
            continue
        length = next((end for end in range(1, 5) if _is_letter(data[:end])), 1)
        letter = data[:length].decode("utf-8", "replace")
        keys.append(_LETTERS.get(letter, letter))
        data = data[length:]
    return keys


def _is_letter(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Screen:
    """Takes the terminal over while it is entered, and gives it back as it was, whatever happens in
    between."""

    def __init__(self) -> None:
        self.colours = shows_colours()
        self._keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._modes: list[object] | None = None
        self._shown: list[str] = []
        self._is_open = False

    @property
    def keyboard(self) -> int | None:
        """The file descriptor that keys are read from; None if standard input is not a terminal."""
        return self._keyboard

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        if self._keyboard is not None:
            import termios
            import tty

            self._modes = termios.tcgetattr(self._keyboard)
            # Keys come one by one and are not shown; Ctrl-C and Ctrl-Z still send signals.
            tty.setcbreak(self._keyboard)
        self._write(_ENTER)
        self._shown = []

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._write(_LEAVE)
        if self._keyboard is not None and self._modes is not None:
            import termios

            termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._modes)  # type: ignore[arg-type]

    def size(self) -> tuple[int, int]:
        """Returns columns and lines now. $COLUMNS does not count: it is of the time when the shell
        started the program."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return _DEFAULT_SIZE
        return (size.columns or _DEFAULT_SIZE[0]), (size.lines or _DEFAULT_SIZE[1])

    def draw(self, lines: list[Line], *, again: bool = False) -> None:
        """Shows the lines. Only those that have changed are written, or with `again` all."""
        texts = [written(line, colours=self.colours) for line in lines]
        if again or len(texts) != len(self._shown):
            self._shown = []
            pieces = ["\x1b[2J"]
        else:
            pieces = []
        for number, text in enumerate(texts):
            if number >= len(self._shown) or self._shown[number] != text:
                # Cleared first: after a line of full width, clearing would erase its last letter.
                pieces.append(f"\x1b[{number + 1};1H\x1b[K{text}")
        self._shown = texts
        if pieces:
            self._write(f"{_BEGIN}{''.join(pieces)}{_END}")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
