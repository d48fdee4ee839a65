"""An HTTP service as a process of its own with a properties file, and how tests ask it."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOOPBACK = "127.0.0.1"
_TIMEOUT_S = 60.0
_STOP_S = 30.0


@dataclass
class Answer:
    status: int
    kind: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        return self.json["error_code"]

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def content(self) -> Any:
        """What JSON says, or the text of anything else."""
        return self.json if "json" in self.kind and self.body else self.body.decode()


def ask(
    port: int, method: str, path: str, body: bytes | str | None, headers: Mapping[str, str]
) -> Answer:
    """Sends a request to a service of this machine, by a connection of its own."""
    connection = http.client.HTTPConnection(_LOOPBACK, port, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers.get("content-type", ""), response.read())
    finally:
        connection.close()


def dotted(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns settings that were given as keyword arguments, by their names."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def service_command(
    command: str, file: Path, settings: Mapping[str, str], *words: str
) -> list[str]:
    """Writes the properties file, with a free port, and returns the command line."""
    given = {"listeners": f"http://{_LOOPBACK}:0", **settings}
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return [sys.executable, "-m", "odradek.cli", command, str(file), *words]


def ready_process(command: list[str], log: Path) -> "tuple[subprocess.Popen[str], str]":
    """Starts a service and returns its process and its URL when it is ready. What it says on
    standard error is appended to `log`. The caller ends it."""
    with log.open("a") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "is ready at" not in line:
        process.kill()
        process.communicate()
        raise AssertionError(f"{line}{log.read_text()}")
    return process, line.split()[-1]


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def end(process: "subprocess.Popen[str]") -> None:
    """Stops a service that was not stopped yet, and waits for its end."""
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=_STOP_S)


@contextmanager
def service_started(
    command: str, file: Path, settings: Mapping[str, str], log: Path
) -> Iterator[str]:
    """Starts a service on a free port and yields its URL. It must end without an error."""
    log.unlink(missing_ok=True)
    process, url = ready_process(service_command(command, file, settings), log)
    try:
        yield url
    finally:
        process.terminate()
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.communicate()
