"""The findings of the checks, their grades, and how they are printed."""

from typing import Literal, NamedTuple

from odradek.tools.terminal import print_json, shows_colours

Grade = Literal["ok", "info", "warning", "wrong"]

_COLOURS: dict[Grade, str] = {"ok": "32", "info": "2", "warning": "33", "wrong": "31"}
_WIDTH = max(map(len, _COLOURS))


class Finding(NamedTuple):
    """`type` is a command or a line of a settings file that mends it or shows more of it."""

    check: str
    grade: Grade
    text: str
    type: str | None = None


class Findings:
    def __init__(self) -> None:
        self.all: list[Finding] = []

    def add(self, check: str, grade: Grade, text: str, line: str | None = None) -> None:
        """Adds a finding; `line` is the line to type."""
        self.all.append(Finding(check, grade, text, line))

    def report(self, *, as_json: bool) -> int:
        """Prints all findings. Returns the exit code: 1 if something is wrong."""
        wrong = sum(finding.grade == "wrong" for finding in self.all)
        warnings = sum(finding.grade == "warning" for finding in self.all)
        if as_json:
            print_json({"ok": not wrong, "findings": [finding._asdict() for finding in self.all]})
            return 1 if wrong else 0
        colours = shows_colours()
        width = max(len(finding.check) for finding in self.all)
        for check, grade, text, line in self.all:
            shown = grade.ljust(_WIDTH)
            if colours:
                shown = f"\x1b[{_COLOURS[grade]}m{shown}\x1b[0m"
            print(f"{shown}  {check.ljust(width)}  {text}")
            if line is not None:
                print(f"{' ' * (_WIDTH + width + 4)}-> {line}")
        if wrong:
            print(f"\n{wrong} wrong, {warnings} could be better.")
        elif warnings:
            print(f"\nNothing is wrong; {warnings} could be better.")
        else:
            print("\nAll is well.")
        return 1 if wrong else 0
