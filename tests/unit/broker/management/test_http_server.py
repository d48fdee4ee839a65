import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from odradek.broker.management import http_server
from odradek.broker.management.http_server import (
    HostRule,
    HttpRequest,
    HttpResponse,
    HttpServer,
    json_response,
    text_response,
)


async def echo(request: HttpRequest) -> HttpResponse:
    if request.path == "/broken":
        raise RuntimeError("planted")
    return text_response(f"{request.path} {request.query} {request.accept}")


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    running = HttpServer(echo, HostRule(["broker.example"]))
    port = await running.open("127.0.0.1", 0)
    try:
        async with asyncio.timeout(30):
            yield port
    finally:
        await running.close()


async def exchange(port: int, *requests: str) -> str:
    """Sends requests over one connection and returns everything that comes until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("".join(requests).encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def get(path: str, *headers: str, method: str = "GET", host: str = "127.0.0.1:9192") -> str:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(lines)


async def test_a_connection_serves_several_requests() -> None:
    async with server() as port:
        found = await exchange(
            port,
            get("/a%20b?x=1", "Accept: text/plain"),
            get("/second", "Connection: close"),
        )
    assert found.count("HTTP/1.1 200 OK") == 2
    assert "/a b x=1 text/plain" in found
    assert "Access-Control" not in found
    assert "Connection: close\r\n" in found


async def test_head_has_no_body() -> None:
    async with server() as port:
        found = await exchange(port, get("/a", "Connection: close", method="HEAD"))
    assert "Content-Length: 4" in found
    assert found.endswith("\r\n\r\n")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (get("/", method="POST"), "405 Method Not Allowed"),
        (get("/", host="evil.example"), "421 Misdirected Request"),
        (get("/", "Content-Length: 5"), "400 Bad Request"),
        (get("/", "Transfer-Encoding: chunked"), "400 Bad Request"),
        ("nonsense\r\n\r\n", "400 Bad Request"),
        (get("/", "X: " + "x" * 20_000), "431 Request Header Fields Too Large"),
        (get("/broken"), "500 Internal Server Error"),
    ],
)
async def test_refusals_close_the_connection(request_text: str, status: str) -> None:
    async with server() as port:
        found = await exchange(port, request_text)
    assert found.startswith(f"HTTP/1.1 {status}\r\n")
    assert "planted" not in found


async def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_MAX_CONNECTIONS", 1)
    async with server() as port:
        reader, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(get("/").encode())
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await exchange(port, get("/", "Connection: close"))
        first.close()


async def test_a_silent_client_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_IDLE_S", 0.01)
    async with server() as port:
        assert await exchange(port, "GET / HT") == ""


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost:9192", True),
        ("LOCALHOST", True),
        ("10.0.0.7:9192", True),
        ("[::1]:9192", True),
        ("Broker.example:9192", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_hosts(host: str, is_allowed: bool) -> None:
    assert HostRule(["broker.example"]).allows(host) is is_allowed


def test_json() -> None:
    response = json_response({"a": 1}, HTTPStatus.SERVICE_UNAVAILABLE)
    assert response.status == 503
    assert response.body == b'{\n  "a": 1\n}\n'
