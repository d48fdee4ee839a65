"""A REST proxy before a cluster, for the tests of its versions, and what they write and read."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.testing import Cluster
from tests.scenarios.connect_process import until
from tests.scenarios.rest_server import JSON_V2, Rest, rest_started


@pytest.fixture(scope="module")
def rest(odradek_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    directory = tmp_path_factory.mktemp("rest")
    settings = {
        "bootstrap.servers": f"PLAINTEXT://{odradek_cluster.bootstrap}",
        "consumer.instance.timeout.ms": "3000",
        "odradek.max.body.bytes": "2000000",
    }
    with rest_started(directory, settings) as started:
        yield started


@pytest.fixture
def topic(odradek_cluster: Cluster) -> str:
    return odradek_cluster.create_topic(partitions=2)


def text(value: bytes) -> str:
    return base64.b64encode(value).decode()


EARLIEST: dict[str, Any] = {"auto.offset.reset": "earliest", "auto.commit.enable": "false"}


def produce(rest: Rest, topic: str, records: list[Any], partition: int = 0) -> None:
    path = f"/topics/{topic}/partitions/{partition}"
    answer = rest("POST", path, {"records": records}, kind=JSON_V2)
    assert answer.status == 200, answer.body
    assert all(one["error_code"] is None for one in answer.json["offsets"])


def read(rest: Rest, path: str, count: int, kind: str = JSON_V2) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        answer = rest("GET", f"{path}/records?timeout=500", None, {"Accept": kind})
        assert answer.status == 200, answer.body
        assert answer.kind == kind
        found.extend(answer.json)
        return len(found) >= count

    until(enough)
    return found
