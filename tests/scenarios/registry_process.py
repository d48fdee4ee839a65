"""A schema registry in a process of its own, for scenarios and tests."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.scenarios.service_process import (
    ask,
    dotted,
    end,
    port_of,
    ready_process,
    service_command,
)

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


class Registry:
    """A registry in a process of its own."""

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
        data = None if body is None else json.dumps(body)
        given = {"content-type": "application/json", **(headers or {})}
        answer = ask(self.port, method, path, data, given)
        return answer.status, answer.content

    def register(self, subject: str, schema: str = SCHEMA) -> Any:
        status, answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
        assert status == 200, answer
        return answer

    def said(self) -> str:
        return self._said.read_text()


def command(directory: Path, bootstrap: str, settings: Mapping[str, str]) -> list[str]:
    given = {
        "kafkastore.bootstrap.servers": bootstrap,
        "kafkastore.topic.replication.factor": "1",
        "odradek.access.log": "false",
        **settings,
    }
    return service_command("schema-registry-start", directory / "registry.properties", given)


def started(directory: Path, bootstrap: str, settings: Mapping[str, str]) -> Registry:
    """Returns a registry that is ready; the caller ends it."""
    directory.mkdir(exist_ok=True)
    said = directory / "said"
    said.unlink(missing_ok=True)
    process, url = ready_process(command(directory, bootstrap, settings), said)
    return Registry(process, port_of(url), said)


@contextmanager
def running(directory: Path, bootstrap: str, **settings: str) -> Iterator[Registry]:
    registry = started(directory, bootstrap, dotted(settings))
    try:
        yield registry
    finally:
        end(registry.process)
