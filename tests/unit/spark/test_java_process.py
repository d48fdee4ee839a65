"""How Java is started: which log levels it gets, and what is seen if it does not start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.spark.java_process import LOGGING, logging_file

_VARIABLE = "LOG4J_CONFIGURATION_FILE"
_JAVA = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "17.0.1" 2021-10-19' >&2;;
  *) echo 'Error: could not reserve enough space' >&2; exit 1;;
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


def test_if_java_does_not_start_its_reason_is_shown(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_JAVA)
    java.chmod(0o755)
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
