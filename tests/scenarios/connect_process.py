"""A worker of Connect in a process of its own, for scenarios and tests."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.scenarios.service_process import (
    ask,
    dotted,
    end,
    port_of,
    ready_process,
    service_command,
)

PATIENCE_S = 60.0
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class Worker:
    def __init__(self, process: "subprocess.Popen[str]", port: int, said: Path) -> None:
        self.process = process
        self.port = port
        self._said = said

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Returns the status and the JSON of an answer. Waits while the workers share out."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            status, answer = self._ask(method, path, body, headers or {})
            is_busy = status == 409 and "rebalance" in str(answer)
            if not is_busy or time.monotonic() > deadline_s:
                return status, answer
            time.sleep(0.1)

    def _ask(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {} if data is None else {"content-type": "application/json"}
        answer = ask(self.port, method, path, data, {**given, **headers})
        return answer.status, answer.content

    def create(self, name: str, **config: object) -> Any:
        named = {key.replace("_", "."): value for key, value in config.items()}
        status, answer = self.ask("POST", "/connectors", {"name": name, "config": named})
        assert status == 201, answer
        return answer

    def status(self, name: str) -> Any:
        return self.ask("GET", f"/connectors/{quote(name, safe='')}/status")[1]

    def becomes(self, name: str, state: str, tasks: int | None = 1) -> Any:
        """Waits until a connector and its tasks have a state."""

        def is_there() -> Any:
            found = self.status(name)
            if found.get("connector", {}).get("state") != state:
                return None
            states = [task["state"] for task in found["tasks"]]
            wanted = len(states) if tasks is None else tasks
            return found if states == [state] * wanted else None

        return until(is_there, lambda: f"{name} is not {state}: {self.status(name)}")

    def said(self) -> str:
        return self._said.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def until(condition: Callable[[], Any], why: Callable[[], str] = lambda: "it never was") -> Any:
    """Waits for something true, and returns it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s, why()
        time.sleep(0.05)
    return found


def started(
    directory: Path,
    kind: str,
    bootstrap: str,
    settings: Mapping[str, str],
    connectors: Sequence[Path] = (),
) -> Worker:
    """Returns a worker that is ready, `kind` standalone or distributed; the caller ends it."""
    directory.mkdir(exist_ok=True)
    given = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.partitions": "1",
        "odradek.engine": "process",
        "odradek.access.log": "false",
        **settings,
    }
    file, said = directory / "worker.properties", directory / "said"
    command = service_command(f"connect-{kind}", file, given, *map(str, connectors))
    process, url = ready_process(command, said)
    return Worker(process, port_of(url), said)


@contextmanager
def running(
    directory: Path,
    kind: str,
    bootstrap: str,
    connectors: Sequence[Path] = (),
    **settings: str,
) -> Iterator[Worker]:
    worker = started(directory, kind, bootstrap, dotted(settings), connectors)
    try:
        yield worker
    finally:
        end(worker.process)
