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


def test_a_command_that_ends_before_its_input_says_nothing_of_that() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_EARLY],
        input=b"one line\n" * 500_000,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
