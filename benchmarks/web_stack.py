"""Compares web frameworks, HTTP servers and JSON libraries for the HTTP services of the platform.

    python -m venv /tmp/web
    /tmp/web/bin/pip install starlette litestar fastapi uvicorn httptools zttp uvloop granian \
        hypercorn msgspec orjson h2
    python -m benchmarks.web_stack --python /tmp/web/bin/python [--seconds N] [--json]

Each stack is a process of its own which answers `POST /echo`: 1 kB of JSON becomes typed values,
is checked, and is written again. Eight connections ask as fast as they are answered. The figure to
compare is the CPU time of the server for one request, because other work on the machine hardly
changes it. In addition: requests a second, memory after the run, the time to import it, and whether
it answers HTTP/2 without TLS (with prior knowledge), which the SQL service needs.
docs/decisions/0027-web-stack.md has the results.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psutil

CONNECTIONS: Final = 8
_ORDER: Final = {
    "name": "a name of a customer",
    "lines": [{"item": f"item number {n}", "count": n, "price": n * 1.5} for n in range(16)],
}
_STRUCTS: Final = """
import msgspec
class Line(msgspec.Struct):
    item: str
    count: int
    price: float
class Order(msgspec.Struct):
    name: str
    lines: list[Line]
decoder, encoder = msgspec.json.Decoder(Order), msgspec.json.Encoder()
"""
_APPLICATIONS: Final = {
    "asgi": _STRUCTS
    + """
async def app(scope, receive, send):
    body = (await receive())["body"]
    out = encoder.encode(decoder.decode(body))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(out))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": out})
""",
    "starlette": _STRUCTS
    + """
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def echo(request):
    out = encoder.encode(decoder.decode(await request.body()))
    return Response(out, media_type="application/json")
app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
""",
    "litestar": _STRUCTS
    + """
from litestar import Litestar, post
@post("/echo", status_code=200)
async def echo(data: Order) -> Order:
    return data
app = Litestar([echo])
""",
    "fastapi": """
import pydantic, fastapi
class Line(pydantic.BaseModel):
    item: str
    count: int
    price: float
class Order(pydantic.BaseModel):
    name: str
    lines: list[Line]
app = fastapi.FastAPI()
@app.post("/echo")
async def echo(order: Order) -> Order:
    return order
""",
}
_SERVERS: Final = {
    "uvicorn, httptools": "uvicorn application:app --port PORT --http httptools --loop uvloop"
    " --no-access-log --log-level error --lifespan off",
    "uvicorn, zttp": "uvicorn application:app --port PORT --http zttp --http2 --loop uvloop"
    " --no-access-log --log-level error --lifespan off",
    "granian": "granian application:app --port PORT --interface asginl --http auto --loop uvloop"
    " --no-access-log --log-level error",
    "hypercorn": "hypercorn application:app --bind 127.0.0.1:PORT --worker-class uvloop",
}
STACKS: Final = [
    *((framework, "uvicorn, httptools") for framework in _APPLICATIONS),
    *(("starlette", server) for server in list(_SERVERS)[1:]),
]
_JSON: Final = """
import json, sys, time
import msgspec, orjson
text = sys.stdin.buffer.read()
STRUCTS
def checked_by_hand(value):
    lines = [Line(line["item"], line["count"], line["price"]) for line in value["lines"]]
    return Order(value["name"], lines)
ways = {
    "json": lambda: json.dumps(json.loads(text)).encode(),
    "orjson, untyped": lambda: orjson.dumps(orjson.loads(text)),
    "orjson, then typed": lambda: encoder.encode(checked_by_hand(orjson.loads(text))),
    "msgspec, untyped": lambda: msgspec.json.encode(msgspec.json.decode(text)),
    "msgspec, typed": lambda: encoder.encode(decoder.decode(text)),
}
figures = {}
for name, way in ways.items():
    best = 1e9
    for _ in range(5):
        began = time.process_time()
        for _ in range(5000):
            way()
        best = min(best, time.process_time() - began)
    figures[name] = best / 5000 * 1e6
print(json.dumps(figures))
"""


class _Asker(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._response = b""
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._response += data
        head, end, body = self._response.partition(b"\r\n\r\n")
        if not end:
            return
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        if len(body) >= length:
            self.answers += 1
            self._response = b""
            self._transport.write(self._request)

    def close(self) -> None:
        self._transport.abort()


async def _load(port: int, seconds: float) -> int:
    body = json.dumps(_ORDER).encode()
    head = f"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"  # noqa: E501
    request = head.encode() + body
    loop = asyncio.get_running_loop()
    askers: list[_Asker] = []
    for _ in range(CONNECTIONS):
        _, asker = await loop.create_connection(lambda: _Asker(request), "127.0.0.1", port)
        askers.append(asker)
    await asyncio.sleep(seconds)
    for asker in askers:
        asker.close()
    return sum(asker.answers for asker in askers)


def _family(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _answers_http2(port: int) -> bool:
    """Sends the preface and an empty SETTINGS frame; a server that knows HTTP/2 sends its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            answer = connection.recv(9)
        except OSError:
            return False
    return len(answer) == 9 and answer[3] == 4


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < end_s, "the server does not listen"
            time.sleep(0.05)
        else:
            return


def measure(python: str, framework: str, server: str, seconds: float) -> dict[str, Any]:
    with socket.socket() as free, tempfile.TemporaryDirectory() as directory:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        Path(directory, "application.py").write_text(_APPLICATIONS[framework])
        began_s = time.process_time()
        words = _SERVERS[server].replace("PORT", str(port)).split()
        imports = _import_ms(python, directory, words[0])
        process = subprocess.Popen(
            [str(Path(python).parent / words[0]), *words[1:]],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": directory},
        )
        try:
            _wait_for(port, process)
            asyncio.run(_load(port, 0.5))
            family = _family(process)
            before_s, began_s = _cpu_s(family), time.monotonic()
            answers = asyncio.run(_load(port, seconds))
            took_s, cpu_s = time.monotonic() - began_s, _cpu_s(family) - before_s
            rss = sum(member.memory_info().rss for member in family)
            http2 = _answers_http2(port)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    return {
        "framework": framework,
        "server": server,
        "cpu_us": round(cpu_s / max(answers, 1) * 1e6, 1),
        "requests_s": round(answers / took_s),
        "rss_mb": round(rss / 1e6, 1),
        "import_ms": round(imports),
        "http2": http2,
    }


def _import_ms(python: str, directory: str, server: str) -> float:
    program = f"import time; b = time.process_time(); import {server}, application; print(time.process_time() - b)"  # noqa: E501
    figures = []
    for _ in range(3):
        done = subprocess.run(
            [python, "-c", program], cwd=directory, capture_output=True, text=True, check=True
        )
        figures.append(float(done.stdout) * 1000)
    return min(figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(options.python, *stack, options.seconds) for stack in STACKS]
    done = subprocess.run(
        [options.python, "-c", _JSON.replace("STRUCTS", _STRUCTS)],
        input=json.dumps(_ORDER).encode(),
        capture_output=True,
        check=True,
    )
    libraries = json.loads(done.stdout)
    if options.json:
        print(json.dumps({"stacks": rows, "json_us": libraries}))
        return 0
    for row in rows:
        print(
            f"{row['framework']:10} {row['server']:20} {row['cpu_us']:7.1f} us CPU a request"
            f" {row['requests_s']:7,} requests/s {row['rss_mb']:6.1f} MB"
            f" {row['import_ms']:5} ms import  HTTP/2: {'yes' if row['http2'] else 'no'}"
        )
    for name, microseconds in libraries.items():
        print(f"{name:20} {microseconds:6.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
