"""A SQL server as a process of its own, and a client that asks it."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, RejectConnection, Request, TextMessage

from tests.scenarios.service_process import ask, port_of, ready_process

EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


class SqlClient:
    """Asks a SQL server of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(
        self, method: str, path: str, body: Any = None, accept: str = "*/*"
    ) -> tuple[int, bytes]:
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json", "Accept": accept}
        answer = ask(self.port, method, path, content, headers)
        return answer.status, answer.body

    def ksql(self, text: str, properties: dict[str, str] | None = None) -> Any:
        """Carries statements out, and returns the answers; an error is the answer itself."""
        given = EARLIEST if properties is None else properties
        _, body = self.ask("POST", "/ksql", {"ksql": text, "streamsProperties": given})
        return json.loads(body)

    @contextmanager
    def stream(self, text: str, properties: dict[str, str]) -> Iterator[Iterator[Any]]:
        """Gives the lines of a query as they come; the first one is the header."""
        body = json.dumps({"sql": text, "properties": properties})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/query-stream", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield map(json.loads, answer)
        finally:
            connection.close()

    def rows(self, text: str) -> list[Any]:
        """Returns the rows of a query that ends."""
        body = {"sql": text, "properties": EARLIEST}
        status, answer = self.ask("POST", "/query-stream", body)
        assert status == 200, answer
        return [json.loads(line) for line in answer.splitlines()][1:]

    def lines(self, text: str, count: int) -> list[str]:
        """Returns the first lines of a query that goes on, by /query."""
        body = json.dumps({"ksql": text, "streamsProperties": EARLIEST})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/query", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return [answer.readline().decode().strip() for _ in range(count)]
        finally:
            connection.close()


class SocketClient:
    """A web socket at a SQL server: `messages` yields texts, and a pair of code and reason last."""

    def __init__(self, port: int, path: str, headers: dict[str, str] | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._connection = WSConnection(ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        asked = Request(host=f"127.0.0.1:{port}", target=path, extra_headers=extra)
        self._socket.sendall(self._connection.send(asked))

    def messages(self) -> Generator[Any]:
        with self._socket:
            yield from self._received()

    def _received(self) -> Iterator[Any]:
        while True:
            data = self._socket.recv(65536)
            self._connection.receive_data(data or None)
            for event in self._connection.events():
                if isinstance(event, TextMessage):
                    yield event.data
                elif isinstance(event, CloseConnection):
                    yield event.code, event.reason
                    return
                elif isinstance(event, RejectConnection):
                    yield event.status_code, ""
                    return


class SqlServer(SqlClient):
    def __init__(self, process: "subprocess.Popen[str]", port: int, log: Path) -> None:
        super().__init__(port)
        self.process = process
        self.log = log

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


@contextmanager
def sql_started(directory: Path, bootstrap: str, *overrides: str) -> Iterator[SqlServer]:
    """Starts a server on a free port, and stops it if it still runs."""
    log = directory / "sql.log"
    command = [sys.executable, "-m", "odradek.cli", "sql-server"]
    for setting in (f"bootstrap.servers={bootstrap}", "listeners=http://127.0.0.1:0", *overrides):
        command += ["--override", setting]
    process, url = ready_process(command, log)
    try:
        yield SqlServer(process, port_of(url), log)
        if process.poll() is None:
            process.terminate()
            assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.communicate()
