"""A broker and a cluster under a service manager: ready, beats of the watchdog, stop, abort."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_DEADLINE_S = 60.0


class _Manager:
    """Stands in for systemd: starts a command with a socket, and hears what it says."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"{directory}/notify")
        self._socket.settimeout(_DEADLINE_S)
        self.process: subprocess.Popen[str] | None = None

    def start(self, *command: str) -> "subprocess.Popen[str]":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek.cli", *command],
            cwd=self._directory,
            env={
                **os.environ,
                "NOTIFY_SOCKET": f"{self._directory}/notify",
                "WATCHDOG_USEC": "200000",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def wait_for(self, line: str) -> str:
        """Returns the next message that has a line like this."""
        while True:
            message = self._socket.recv(4096).decode()
            if re.search(line, message, re.MULTILINE):
                return message

    def close(self) -> None:
        self._socket.close()
        if self.process is not None:
            self.process.kill()  # Does nothing if it has ended.
            self.process.communicate()


@pytest.fixture
def manager() -> Iterator[_Manager]:
    with _short_directory() as directory:
        manager = _Manager(directory)
        yield manager
        manager.close()


@contextmanager
def _short_directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="odradek-", dir="/tmp") as directory:
        yield directory


def test_a_broker_says_when_it_is_ready_and_beats_until_it_stops(manager: _Manager) -> None:
    process = manager.start("up", "--port", "0")
    ready = manager.wait_for("^READY=1$")
    assert re.search(r"^STATUS=ready at 127\.0\.0\.1:\d+$", ready, re.MULTILINE)
    for _ in range(3):
        assert manager.wait_for("WATCHDOG|STOPPING") == "WATCHDOG=1"
    process.send_signal(signal.SIGTERM)
    assert "STATUS=stopping" in manager.wait_for("^STOPPING=1$")
    assert process.wait(_DEADLINE_S) == 0


def test_where_a_stuck_broker_was_is_told_when_the_watchdog_ends_it(manager: _Manager) -> None:
    process = manager.start("up", "--port", "0")
    manager.wait_for("^READY=1$")
    process.send_signal(signal.SIGABRT)  # What systemd's watchdog sends.
    assert process.stderr is not None
    errors = process.stderr.read()
    process.wait(_DEADLINE_S)
    assert process.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in errors
    assert "local/serving.py" in errors


def test_a_cluster_is_ready_once_and_its_brokers_do_not_speak_for_it(manager: _Manager) -> None:
    process = manager.start("up", "--brokers", "2", "--port", "0")
    assert "STATUS=2 brokers ready at" in manager.wait_for("^READY=1$")
    for _ in range(3):
        assert manager.wait_for("WATCHDOG|READY|STOPPING") == "WATCHDOG=1"
    process.send_signal(signal.SIGTERM)
    manager.wait_for("^STOPPING=1$")
    assert process.wait(_DEADLINE_S) == 0
