"""Tokens of OAUTHBEARER from an endpoint: a real HTTP server that answers well, badly, or not."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from odradek.security.sasl.client.tokens import Endpoint, TokenUnavailable, claims, token_of

Answer = Callable[[BaseHTTPRequestHandler, dict[str, list[str]]], tuple[int, bytes]]


@contextmanager
def endpoint(answer: Answer) -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            status, body = answer(self, parse_qs(self.rfile.read(length).decode()))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}/token", "ada", "hunter2", "kafka")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def jwt(**said: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def test_a_token_is_got_by_client_credentials() -> None:
    text = jwt(sub="ada", exp=2_000_000_000)
    seen: list[tuple[str, dict[str, list[str]]]] = []

    def answer(handler: BaseHTTPRequestHandler, form: dict[str, list[str]]) -> tuple[int, bytes]:
        seen.append((handler.headers["Authorization"], form))
        return 200, json.dumps({"access_token": text, "expires_in": 60}).encode()

    with endpoint(answer) as asked:
        token = asked.fetch()
    assert token.text == text
    assert token.expires_s == 2_000_000_000
    assert "e30" not in repr(token)
    credentials = base64.b64encode(b"ada:hunter2").decode()
    assert seen == [
        (f"Basic {credentials}", {"grant_type": ["client_credentials"], "scope": ["kafka"]})
    ]


@pytest.mark.parametrize(
    ("status", "body", "said", "is_temporary"),
    [
        (401, b'{"error": "invalid_client"}', "answered 401: invalid_client", False),
        (400, b'{"error_description": "no such scope"}', "answered 400: no such scope", False),
        (400, b"[]", "answered 400", False),
        (503, b"<html>", "answered 503", True),
        (429, b"", "answered 429", True),
        (302, b"", "answered 302", False),
        (200, b"{}", "without an access_token", False),
        (200, b"nonsense", "without an access_token", False),
        (200, b'{"access_token": 5}', "without an access_token", False),
        (200, b" " * (2 << 20), "without an access_token", False),
    ],
)
def test_an_endpoint_that_gives_no_token_is_explained(
    status: int, body: bytes, said: str, is_temporary: bool
) -> None:
    with endpoint(lambda *_: (status, body)) as asked, pytest.raises(TokenUnavailable) as caught:
        asked.fetch()
    assert said in str(caught.value)
    assert caught.value.is_temporary is is_temporary
    assert "hunter2" not in str(caught.value) + repr(asked)


def test_an_endpoint_that_is_not_there_may_come_back() -> None:
    with endpoint(lambda *_: (200, b"")) as asked:
        pass
    with pytest.raises(TokenUnavailable) as caught:
        asked.fetch()
    assert caught.value.is_temporary


@pytest.mark.parametrize("url", ["ftp://host/token", "/etc/passwd", "file:///etc/passwd"])
def test_only_http_is_asked(url: str) -> None:
    with pytest.raises(TokenUnavailable, match="must begin with https://"):
        Endpoint(url, "ada", "hunter2").fetch()


@pytest.mark.parametrize("text", ["opaque", "a.b", "a.!!.c", "a.W10.c", "a..c"])
def test_a_token_that_is_no_jwt_has_no_known_end(text: str) -> None:
    assert claims(text) == {}
    assert token_of(text).expires_s is None
