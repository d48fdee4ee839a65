"""The first contact with brokers: refused connections are an error at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from odradek.client.errors import NoBrokerAvailable
from odradek.client.settings import AdminSettings
from odradek.spark import clients, reachability
from odradek.spark.reachability import in_words_of_commands, require_reachable


@contextmanager
def closing_admins() -> Iterator[None]:
    try:
        yield
    finally:
        clients.close_admins()


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_one_address_that_is_slow_to_answer_is_enough(
    listening: str, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "_ANSWER_MS", 100)
    with closing_admins():
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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", r"speaks HTTP, .* set kafka\.b"),
        (b"", r"is it a Kafka listener of the kind that kafka\.security\.protocol says\?$"),
    ],
)
def test_another_program_at_the_address_is_an_error_at_once(answer: bytes, said: str) -> None:
    """The client alone would try for a minute."""

    class Web(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        with closing_admins(), pytest.raises(NoBrokerAvailable, match=said) as failed:
            require_reachable(AdminSettings(bootstrap_servers=address))
        server.shutdown()
    as_command = in_words_of_commands(failed.value)
    assert "kafka." not in str(as_command)
    assert as_command.reasons == failed.value.reasons != ()
