"""How a program ends that does not handle an error of Spark's, or Ctrl-C. No Java: the hook is what
is tested."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import logging, sys
from odradek.spark.java_output import JavaOutput
from odradek.spark.uncaught import explain_uncaught
from pyspark.errors import AnalysisException

explain_uncaught(JavaOutput())

def load():
    {body}

load()
"""


def last_words(tmp_path: Path, body: str) -> list[str]:
    program = tmp_path / "app.py"
    program.write_text(_PROGRAM.format(body=body))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    return done.stderr.splitlines()


def test_the_reason_comes_first_and_then_the_place(tmp_path: Path) -> None:
    failed = "Failed: odradek.spark.options.BadOption: there is no option x\\n SQLSTATE: 38000"
    lines = last_words(tmp_path, f'raise AnalysisException("{failed}")')
    assert lines[0] == "odradek: there is no option x"
    assert f'  File "{tmp_path}/app.py", line 12, in <module>' in lines
    assert lines[-1] == "(ODRADEK_DEBUG=1 shows all that Spark says)"
    assert len(lines) == 6


def test_the_prompt_shows_the_reason_too_and_java_goes_on(tmp_path: Path) -> None:
    failed = "Failed: odradek.spark.option_names.BadOption: there is no option x"
    body = f'sys.ps1 = ">>> "; raise AnalysisException("{failed}")'
    assert last_words(tmp_path, body)[0] == "odradek: there is no option x"
    body = 'sys.ps1 = ">>> "; raise KeyboardInterrupt'
    assert last_words(tmp_path, body)[-1] == "KeyboardInterrupt"


def test_a_stack_of_java_is_not_shown(tmp_path: Path) -> None:
    said = "Destination is not a directory: /a/file\\n\\tat a.CheckpointFileManager.x(Y.scala:1)"
    error = 'type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})'
    body = f'raise {error}("{said}")'
    lines = last_words(tmp_path, body)
    assert lines[0].startswith("odradek: the checkpoint cannot be in /a/file, which is a file; set")


def test_other_errors_are_shown_as_ever(tmp_path: Path) -> None:
    assert last_words(tmp_path, 'raise AnalysisException("no column x")')[0].startswith("Traceback")
    assert last_words(tmp_path, 'raise ValueError("x")')[-1] == "ValueError: x"


def test_an_interruption_is_one_line(tmp_path: Path) -> None:
    # What py4j logs of the call that was interrupted, and of a Java that has ended before.
    for said in (
        'logging.error("KeyboardInterrupt while sending command.")',
        (
            'logging.basicConfig(); logging.getLogger("py4j.clientserver")'
            '.error("Exception occurred while shutting down connection")'
        ),
    ):
        assert last_words(tmp_path, f"{said}; raise KeyboardInterrupt") == ["interrupted"]


def test_a_call_that_ctrl_c_breaks_in_the_middle_is_not_logged(tmp_path: Path) -> None:
    """As py4j does where Spark's own handler of Ctrl-C calls Java in the middle of another call."""
    body = """
    for reason in (RuntimeError("reentrant call inside <_io.BufferedReader>"), OSError("broken")):
        try:
            try:
                raise reason
            except Exception as cause:
                raise ConnectionError("Error while sending or receiving") from cause
        except ConnectionError:
            logging.exception("Exception while sending command.")
    raise KeyboardInterrupt"""
    lines = last_words(tmp_path, body.strip())
    assert not any("reentrant" in line for line in lines)
    assert "OSError: broken" in lines
    assert lines[-1] == "interrupted"
