"""`odradek up` and other commands as processes of their own, for scenarios and tests."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

COMMAND: Final = [sys.executable, "-m", "odradek.cli"]


@contextmanager
def running(
    *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """Runs a tool that goes on until it is told to stop, and kills it at the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def three_free_ports() -> int:
    """Returns the first of three ports in a row that are free now."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, 3):
        with suppress(OSError):
            for port in range(first, first + 3):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", port))
            return first
    raise AssertionError("no three free ports in a row")


def wait_for_line(process: "subprocess.Popen[str]", words: str) -> str:
    """Returns the first line with these words. Raises if the process ends before, so that a port
    that another cluster has taken is noticed."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        if words in line:
            return line
        lines.append(line)
    raise AssertionError(f"it ended without {words!r}: {lines}")
