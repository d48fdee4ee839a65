"""A standalone worker of Connect in a process of its own, which a scenario may kill."""

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

READY_TIMEOUT_S = 60.0


class ConnectWorker:
    """One connector on one worker. It goes on with the same offsets after each start."""

    def __init__(
        self, directory: Path, bootstrap: str, port: int, connector: Mapping[str, str]
    ) -> None:
        directory.mkdir(exist_ok=True)
        self._worker = directory / "worker.properties"
        self._connector = directory / "connector.properties"
        self.log = directory / "worker.log"
        self._port = port
        self._name = connector["name"]
        self._process: subprocess.Popen[bytes] | None = None
        self._write(
            self._worker,
            {
                "bootstrap.servers": bootstrap,
                "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "offset.storage.topic": "offsets",
                "offset.storage.replication.factor": "1",
                "listeners": f"http://127.0.0.1:{port}",
                "odradek.engine": "process",
            },
        )
        self._write(self._connector, connector)

    @staticmethod
    def _write(path: Path, properties: Mapping[str, str]) -> None:
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "odradek.cli", "connect-standalone",
                 str(self._worker), str(self._connector)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait_until_running(self) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while self.state() != "RUNNING":
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline_s, f"{self.status()} {self.log.read_text()[-3000:]}"
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends the worker as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def state(self) -> str | None:
        tasks = self.status().get("tasks") or [{}]
        return str(tasks[0].get("state"))

    def offset(self) -> dict[str, Any] | None:
        """Returns how far the connector has read; None if it is not known."""
        found = self._ask("offsets").get("offsets") or []
        return dict(found[0]["offset"]) if found else None

    def status(self) -> dict[str, Any]:
        return self._ask("status")

    def _ask(self, what: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            try:
                connection.request("GET", f"/connectors/{self._name}/{what}")
                found: dict[str, Any] = json.loads(connection.getresponse().read())
                return found
            finally:
                connection.close()
        return {}
