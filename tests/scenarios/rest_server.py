"""A REST proxy as a process of its own, and a client that asks it."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.scenarios.service_process import Answer, ask, port_of, service_started

V2 = "application/vnd.kafka.v2+json"
JSON_V2 = "application/vnd.kafka.json.v2+json"
AVRO_V2 = "application/vnd.kafka.avro.v2+json"
BINARY_V2 = "application/vnd.kafka.binary.v2+json"


def basic(user: str, password: str = "") -> dict[str, str]:
    text = base64.b64encode(f"{user}:{password or user + '-secret'}".encode()).decode()
    return {"Authorization": f"Basic {text}"}


class Rest:
    """Asks a proxy, each time by a new connection."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.log = log
        self.url = f"http://127.0.0.1:{port}"
        self._cluster = ""

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        kind: str = "application/json",
    ) -> Answer:
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        sent = {"Content-Type": kind} if content is not None else {}
        return ask(self.port, method, path, content, {**sent, **(headers or {})})

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, None, headers)

    def v3(self, path: str = "", headers: Mapping[str, str] | None = None) -> str:
        """Returns a path of version 3 within the cluster."""
        if not self._cluster:
            found = self("GET", "/v3/clusters", None, headers)
            self._cluster = found.json["data"][0]["cluster_id"]
        return f"/v3/clusters/{quote(self._cluster)}{path}"

    @contextmanager
    def consumer(
        self, group: str, headers: Mapping[str, str] | None = None, **settings: Any
    ) -> Iterator[str]:
        """Creates a consumer instance and returns its path."""
        made = self("POST", f"/consumers/{group}", settings, headers, kind=V2)
        assert made.status == 200, made.body
        path = f"/consumers/{group}/instances/{made.json['instance_id']}"
        assert made.json["base_uri"] == f"{self.url}{path}"
        yield path
        self("DELETE", path, None, headers)


@contextmanager
def rest_started(directory: Path, settings: Mapping[str, str]) -> Iterator[Rest]:
    """Starts a proxy with a properties file, on a free port."""
    file, log = directory / "kafka-rest.properties", directory / "rest.log"
    with service_started("kafka-rest-start", file, settings, log) as url:
        yield Rest(port_of(url), log)
