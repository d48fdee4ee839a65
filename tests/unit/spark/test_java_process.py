"""How Java is started: which log levels it gets, and what is seen if it does not start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.spark.java_process import LOGGING, logging_file

_VARIABLE = "LOG4J_CONFIGURATION_FILE"
# Spark runs Java twice: the first prints the command line of the second.
_JAVA = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "17.0.1" 2021-10-19' >&2;;
  *launcher.Main*) printf '\\0\\n'; printf '%s\\0' "$0" SparkSubmit;;
  *) {otherwise};;
esac
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (_VARIABLE, "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_log_levels_are_ours_while_java_starts() -> None:
    with logging_file():
        assert os.environ[_VARIABLE] == LOGGING
    assert _VARIABLE not in os.environ
    assert Path(LOGGING).exists()


def test_log_levels_of_the_user_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with logging_file():
        assert _VARIABLE not in os.environ
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv(_VARIABLE, "/mine")
    with logging_file():
        assert os.environ[_VARIABLE] == "/mine"


def write_java(home: Path, otherwise: str) -> None:
    """A Java that tells its version, and otherwise runs a line of shell."""
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_JAVA.format(otherwise=otherwise))
    java.chmod(0o755)


def test_a_start_that_is_interrupted_leaves_no_java_behind(tmp_path: Path) -> None:
    """Java ignores the signal and does not notice that nobody waits for it."""
    note = tmp_path / "pid"
    write_java(tmp_path, f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 300")
    starting = subprocess.Popen(
        [sys.executable, "-c", "from odradek import spark; spark.session()"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline_s = time.monotonic() + 60
    while not note.exists():
        assert time.monotonic() < deadline_s, "Java was not started"
        time.sleep(0.05)
    os.killpg(starting.pid, signal.SIGINT)
    java = int(note.read_text())
    try:
        # The pipe ends when Java does, because Java inherits it.
        assert starting.communicate(timeout=60)[1] == "interrupted\n"
        assert starting.returncode == -signal.SIGINT
        while _is_alive(java):
            assert time.monotonic() < deadline_s, "Java is left behind"
            time.sleep(0.05)
    finally:
        if _is_alive(java):
            os.kill(java, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_if_java_does_not_start_its_reason_is_shown(tmp_path: Path) -> None:
    write_java(tmp_path, "echo 'Error: could not reserve enough space' >&2; exit 1")
    done = subprocess.run(
        [sys.executable, "-c", "from odradek import spark; spark.session()"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Error: could not reserve enough space\n" in done.stderr
    assert "JAVA_GATEWAY_EXITED" in done.stderr
