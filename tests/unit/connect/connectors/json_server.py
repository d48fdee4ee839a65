"""An HTTP server whose answers a test decides: the other side of HTTP connectors."""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Response(NamedTuple):
    status: int = 200
    body: object = None
    headers: Mapping[str, str] = {}


class JsonServer:
    """It works in `with`; `requests` are those that came."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.requests: list[Request] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                query = dict(parse_qsl(parts.query))
                headers = {name.lower(): text for name, text in self.headers.items()}
                body = self.rfile.read(length)
                request = Request(self.command, parts.path, query, headers, body)
                outer.requests.append(request)
                response = answer(request)
                data = json.dumps(response.body).encode()
                self.send_response(response.status)
                for name, text in response.headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_POST = do_HEAD = do_GET  # noqa: N815 - the names are those of the class

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
