"""Work that waits ends when nobody can read its output any more."""

import subprocess
import sys

WAITS = """
import asyncio, sys
from odradek.tools.interruption import until_interrupted

async def work():
    print("first", flush=True)
    await asyncio.sleep(60)

try:
    asyncio.run(until_interrupted(work()))
except BrokenPipeError:
    sys.exit(141)
"""


def test_work_ends_with_the_reader_of_its_output() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        process.stdout.close()
        assert process.wait(timeout=30) == 141


def test_work_whose_output_is_no_pipe_goes_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WAITS.replace("sleep(60)", "sleep(0)")],
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=30,
    )
    assert ended.returncode == 0
