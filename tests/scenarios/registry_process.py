"""A schema registry in a process of its own, for scenarios and tests."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

READY = re.compile(r"the schema registry is ready at http://127\.0\.0\.1:(\d+)")
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            given = {"content-type": "application/json", **(headers or {})}
            connection.request(method, path, data, given)
            response = connection.getresponse()
            text = response.read()
            is_json = "json" in (response.getheader("content-type") or "")
            return response.status, json.loads(text) if is_json else text.decode()
        finally:
            connection.close()

    def register(self, subject: str, schema: str = SCHEMA) -> Any:
        status, answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
        assert status == 200, answer
        return answer

    def said(self) -> str:
        return self._said.read_text()


def command(directory: Path, bootstrap: str, settings: Mapping[str, str]) -> list[str]:
    lines = {
        "listeners": "http://127.0.0.1:0",
        "kafkastore.bootstrap.servers": bootstrap,
        "kafkastore.topic.replication.factor": "1",
        "odradek.access.log": "false",
    } | dict(settings)
    path = directory / "registry.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return [sys.executable, "-m", "odradek.cli", "schema-registry-start", str(path)]


def started(directory: Path, bootstrap: str, settings: Mapping[str, str]) -> Registry:
    """Returns a registry that is ready; the caller ends it."""
    directory.mkdir(exist_ok=True)
    path = directory / "said"
    with path.open("w") as said:
        process = subprocess.Popen(
            command(directory, bootstrap, settings), stdout=subprocess.PIPE, stderr=said, text=True
        )
    assert process.stdout is not None
    found = READY.match(process.stdout.readline())
    if found is None:
        process.kill()
        process.communicate()
        raise AssertionError(path.read_text())
    return Registry(process, int(found[1]), path)


@contextmanager
def running(directory: Path, bootstrap: str, **settings: str) -> Iterator[Registry]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    registry = started(directory, bootstrap, named)
    try:
        yield registry
    finally:
        if registry.process.poll() is None:
            registry.process.terminate()
        registry.process.communicate(timeout=30)
