"""Standard input that is read while a command runs, and after it has ended."""

import subprocess
import sys

# Takes one chunk of many and ends. The thread that reads has filled the queue by then, and waits
# for room in it.
ENDS_EARLY = """
import asyncio
from odradek.tools.standard_input import input_lines

async def main():
    async for lines in input_lines():
        while not asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.sleep(0.001)
        return

asyncio.run(main())
"""

WATCHES = """
import asyncio
from odradek.tools.standard_input import watch_input_end

async def main():
    watch_input_end(print)

asyncio.run(main())
"""


def test_a_command_that_ends_before_its_input_says_nothing_of_that() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_EARLY],
        input=b"one line\n" * 500_000,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_input_without_another_end_is_refused() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WATCHES],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"CommandFailed: --until-input-closes needs a pipe or a terminal" in ended.stderr
