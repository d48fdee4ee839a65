"""Runs a page from top to bottom, and compares what is printed with what the page shows."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.guides.expected_output import matches
from tests.guides.markdown import Block, Kind, NotationError, blocks
from tests.guides.terminal import DEADLINE_S, Terminal
from tests.guides.transcript import Step, steps

_TEST: Final = re.compile(r"^(?:async )?def test_", re.MULTILINE)
Report = Callable[[int, Step, str, str | None], None]


class PageDiffers(AssertionError):
    def __init__(self, line: int, command: str, shown: str, printed: str) -> None:
        super().__init__(
            f"line {line}: {command}\n--- the page shows\n{shown}--- this was printed\n{printed}"
        )


class Page:
    """`report` is called after every command with the line of its block, what was typed, what it
    printed, and what is wrong with it, if anything is."""

    def __init__(self, path: Path, directory: Path, report: Report) -> None:
        self._blocks = list(blocks(path.read_text()))
        self._terminal = Terminal(directory)
        self._report = report
        self._printed = ""  # by the last Python block
        self._python_blocks = 0

    def run(self) -> None:
        try:
            for block in self._blocks:
                self._run_block(block)
        finally:
            self._terminal.close()

    def _run_block(self, block: Block) -> None:
        if block.kind is Kind.SESSION:
            self._run_session(block)
        elif block.kind is Kind.PYTHON:
            self._run_python(block)
        elif block.kind is Kind.FILE:
            self._terminal.write_file(block.argument, block.text)
        elif block.kind is Kind.OUTPUT:
            step = Step("the Python block", block.text)
            self._compare(block, step, self._printed)
        elif block.kind is Kind.CTRL_C:
            code, printed = self._terminal.interrupt()
            self._check_code(block, Step("Ctrl-C", "", compares=False), code, printed)

    def _run_session(self, block: Block) -> None:
        typed = steps(block.text)
        if block.is_repeated:
            # What is repeated until it prints nothing is compared too.
            typed = [replace(step, compares=True) for step in typed]
        *before, last = typed
        for step in before if block.is_background else typed:
            if "^C\n" in step.shown:
                self._run_until_interrupted(block, step)
            else:
                self._run_step(block, step)
        if block.is_background:
            self._run_in_background(block, last)

    def _run_step(self, block: Block, step: Step) -> None:
        if step.command.endswith(" &"):
            background = Step(step.command.removesuffix(" &"), step.shown, step.compares)
            self._run_in_background(block, background)
            return
        code, printed = self._terminal.run(step.command)
        deadline = time.monotonic() + DEADLINE_S
        while block.is_repeated and not matches(step.shown, printed):
            if time.monotonic() > deadline:
                break
            code, printed = self._terminal.run(step.command)
        self._compare(block, step, printed)
        self._check_code(block, step, code, printed)

    def _run_in_background(self, block: Block, step: Step) -> None:
        if not step.shown:
            raise NotationError(f"line {block.line}: show what {step.command!r} prints when ready")
        printed = self._terminal.run_in_background(
            step.command, lambda printed: matches(step.shown, printed)
        )
        self._compare(block, step, printed)
        self._report(block.line, step, printed, None)

    def _run_until_interrupted(self, block: Block, step: Step) -> None:
        first, _, _ = step.shown.partition("^C\n")
        self._run_in_background(block, Step(step.command, first))
        code, printed = self._terminal.interrupt()
        self._compare(block, Step(step.command, step.shown.replace("^C\n", "")), printed)
        self._check_code(block, step, code, printed)

    def _run_python(self, block: Block) -> None:
        self._python_blocks += 1
        name = f"program_{self._python_blocks}.py"
        self._terminal.write_file(name, block.text)
        how = "-W error"
        if _TEST.search(block.text):
            how = "-m pytest --quiet -p no:cacheprovider"
        step = Step(f"python {how} {name}", "", compares=False)
        code, self._printed = self._terminal.run(step.command)
        self._check_code(block, step, code, self._printed)

    def _compare(self, block: Block, step: Step, printed: str) -> None:
        if step.compares and not matches(step.shown, printed):
            self._report(block.line, step, printed, "differs")
            raise PageDiffers(block.line, step.command, step.shown, printed)

    def _check_code(self, block: Block, step: Step, code: int, printed: str) -> None:
        if (code != 0) != step.must_fail:
            self._report(block.line, step, printed, f"exit status {code}")
            raise PageDiffers(block.line, f"{step.command}: exit status {code}", "", printed)
        self._report(block.line, step, printed, None)
