"""What systemd is told, on a socket as systemd opens it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.world.service_manager import ServiceManager

_DEADLINE_S = 10.0


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.chdir(tmp_path)  # The path of a socket is short; that of a test may be long.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("notify")
        receiver.settimeout(_DEADLINE_S)
        yield receiver


def _heard(receiver: socket.socket) -> str:
    return receiver.recv(4096).decode()


def _manager(receiver: socket.socket, **variables: str) -> ServiceManager:
    path = os.path.abspath(receiver.getsockname())
    if len(path) > 100:
        pytest.skip(f"the path of the temporary directory is too long for a socket: {path}")
    return ServiceManager.from_environment({"NOTIFY_SOCKET": path, **variables})


def test_a_process_that_nobody_watches_says_nothing() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}):
        manager = ServiceManager.from_environment(environment)
        assert not manager.is_there
        manager.ready("ready")
        manager.beat()
        asyncio.run(manager.run())  # It ends at once.


def test_children_do_not_inherit_the_variables(receiver: socket.socket) -> None:
    environment = {
        "NOTIFY_SOCKET": "/somewhere",
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    manager = ServiceManager.from_environment(environment)
    assert environment == {"PATH": "/bin"}
    assert manager.watchdog_s == 30
    manager.beat()  # Nobody listens there, and nothing fails.


def test_the_watchdog_of_another_process_is_not_ours(receiver: socket.socket) -> None:
    assert _manager(receiver, WATCHDOG_USEC="1000", WATCHDOG_PID="1").watchdog_s is None
    assert _manager(receiver, WATCHDOG_USEC="soon").watchdog_s is None
    assert _manager(receiver, WATCHDOG_USEC="1000").watchdog_s == 0.001


def test_the_life_of_a_process(receiver: socket.socket) -> None:
    manager = _manager(receiver, WATCHDOG_USEC="30000000")
    manager.beat()
    assert _heard(receiver) == "EXTEND_TIMEOUT_USEC=60000000"
    manager.ready("ready at 127.0.0.1:9092")
    assert _heard(receiver) == "READY=1\nSTATUS=ready at 127.0.0.1:9092"
    manager.beat()
    assert _heard(receiver) == "WATCHDOG=1"
    manager.stopping("stopping")
    assert _heard(receiver) == "STOPPING=1\nSTATUS=stopping"
    manager.beat()
    assert _heard(receiver) == "EXTEND_TIMEOUT_USEC=60000000"


def test_names_in_the_abstract_namespace() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0odradek-{os.getpid()}")
        receiver.settimeout(_DEADLINE_S)
        ServiceManager(f"@odradek-{os.getpid()}").ready("ready")
        assert _heard(receiver) == "READY=1\nSTATUS=ready"


async def test_a_stuck_event_loop_does_not_beat(receiver: socket.socket) -> None:
    manager = _manager(receiver, WATCHDOG_USEC="20000")
    manager.ready("ready")
    beating = asyncio.create_task(manager.run())
    loop = asyncio.get_running_loop()
    assert _heard(receiver).startswith("READY=1")
    for _ in range(3):
        assert await loop.run_in_executor(None, _heard, receiver) == "WATCHDOG=1"
    # From here on the loop is stuck in `recv`. Beats that have left already are read first.
    receiver.settimeout(0)
    with suppress(BlockingIOError):
        while True:
            _heard(receiver)
    receiver.settimeout(0.2)
    with pytest.raises(TimeoutError):
        _heard(receiver)
    beating.cancel()
