"""The first contact with brokers: refused connections are an error at once."""

import socket
from collections.abc import Iterator

import pytest

from odradek.client.errors import NoBrokerAvailable
from odradek.client.settings import AdminSettings
from odradek.spark.reachability import require_reachable


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_one_address_that_answers_is_enough(listening: str, nobody: str) -> None:
    require_reachable(AdminSettings(bootstrap_servers=[nobody, listening]))


def test_refused_connections_are_said_with_what_to_do(nobody: str) -> None:
    with pytest.raises(NoBrokerAvailable) as failed:
        require_reachable(AdminSettings(bootstrap_servers=[nobody, nobody]))
    assert str(failed.value) == (
        f"cannot connect to {nobody}: connection refused, {nobody}: connection refused; start a"
        " broker with `odradek up`, or set kafka.bootstrap.servers to the address of another"
    )


def test_a_host_that_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(NoBrokerAvailable, match="nowhere:9092: there is no host of this name"):
        require_reachable(AdminSettings(bootstrap_servers="nowhere:9092"))


def test_an_address_that_is_silent_is_left_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object, **__: object) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    require_reachable(AdminSettings(bootstrap_servers="10.255.255.1:9092"))
