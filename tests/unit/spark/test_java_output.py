"""What Java writes to standard error, and what of it is shown."""

import os
import subprocess
import sys
import threading

import pytest

from odradek.spark.java_output import JavaOutput

_START = (
    b"WARNING: Using incubator modules: jdk.incubator.vector\n"
    b"Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n"
    b'Setting default log level to "WARN".\n'
    b"To adjust logging level use sc.setLogLevel(newLevel).\n"
)


def test_what_java_says_at_every_start_is_dropped() -> None:
    assert JavaOutput().filter(_START + b"java.lang.OutOfMemoryError: heap\n") == (
        b"java.lang.OutOfMemoryError: heap\n"
    )


@pytest.mark.parametrize("size", [1, 7, 64])
def test_however_the_bytes_come(size: int) -> None:
    output = JavaOutput()
    data = b"WARN\n" + _START + b"WARNING: another\nno end of line"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(map(output.filter, pieces)) == b"WARN\nWARNING: another\nno end of line"


def test_a_line_without_an_end_is_shown_at_once() -> None:
    assert JavaOutput().filter(b"\r[Stage 1: 3/7]") == b"\r[Stage 1: 3/7]"


def test_nothing_is_shown_after_the_end_until_work_begins_again() -> None:
    output = JavaOutput()
    output.mute()
    assert output.filter(b"Traceback (most recent call last):\n") == b""
    output.unmute()
    assert output.filter(b"an error\n") == b"an error\n"


def test_a_process_writes_through_the_pipe_to_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = "WARNING: Using incubator modules: x\\nan error\\nWARN"
    # A Java process of another test may be alive.
    others = set(threading.enumerate())
    with JavaOutput().pipe() as writing:
        program = f"import sys; sys.stderr.write('{words}')"
        subprocess.run([sys.executable, "-c", program], stderr=writing, check=True)
    for thread in set(threading.enumerate()) - others:
        if thread.name == "java-stderr":
            thread.join(10)
            assert not thread.is_alive()
    assert capfd.readouterr().err == "an error\nWARN"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)
