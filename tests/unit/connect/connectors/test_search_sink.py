"""The search-index sink on a real OpenSearch, and on a server that is busy."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from odradek.connect import plugins
from odradek.connect.connectors.connector import SinkTask
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SinkRecord
from tests.needs import need
from tests.search_server import SearchServer

# One server for all of them.
pytestmark = pytest.mark.xdist_group("search")
OPENSEARCH = "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector"
CONFLUENT = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
ORDER = schemas.struct(
    Field("id", schemas.INT32),
    Field("price", schemas.decimal(2)),
    Field("day", schemas.date()),
    Field("at", schemas.timestamp()),
    Field("tags", schemas.array(schemas.STRING)),
    Field("counts", schemas.map_of(schemas.STRING, schemas.INT32)),
    name="Order",
)
VALUE = {
    "id": 1,
    "price": Decimal("12.50"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "tags": ["a"],
    "counts": {"x": 1},
}


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchServer]:
    server = need(lambda: SearchServer(tmp_path_factory.mktemp("opensearch")))
    with server:
        yield server


_open: list[SinkTask] = []


@pytest.fixture(autouse=True)
def closed_tasks() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def task(url: str, name: str = OPENSEARCH, **options: object) -> SinkTask:
    """Returns a task, which ends with the test."""
    given = {option.replace("_", "."): str(value) for option, value in options.items()}
    plugin = plugins.find_connector(name)
    properties = {"connection.url": url, "read.timeout.ms": "30000", **given}
    made: SinkTask = plugin.load()(plugin.settings_class.read(properties)).task()
    _open.append(made)
    return made


def record(topic: str, offset: int, key: Any, value: Any) -> SinkRecord:
    schema = None
    return SinkRecord(
        topic, key, value, value_schema=schema, offset=offset, original_topic=topic,
        timestamp_ms=1_700_000_000_000,
    )  # fmt: skip


def index() -> str:
    return f"i{uuid.uuid4().hex[:8]}"


def test_documents_are_replaced_and_deleted_by_key(search: SearchServer) -> None:
    topic = index()
    sink = task(search.url, **{"behavior.on.null.values": "delete"})
    first = [record(topic, n, f"k{n}", {"n": n}) for n in range(3)]
    assert not sink.write(first)
    later = [record(topic, 3, "k1", {"n": 100}), record(topic, 4, "k2", None)]
    assert not sink.write(later)
    assert search.documents(topic) == {"k0": {"n": 0}, "k1": {"n": 100}}
    # After a restart, records come again, and change nothing.
    assert not task(search.url, **{"behavior.on.null.values": "delete"}).write(first + later)
    assert search.documents(topic) == {"k0": {"n": 0}, "k1": {"n": 100}}


def test_the_mapping_is_made_of_the_schema(search: SearchServer) -> None:
    topic = index()
    order = replace(record(topic, 0, "1", VALUE), value_schema=ORDER)
    assert not task(search.url).write([order])
    mapping = search.ask("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    kinds = {name: part.get("type") for name, part in mapping.items()}
    assert kinds == {
        "id": "integer", "price": "double", "day": "date", "at": "date", "tags": "text",
        "counts": None,
    }  # fmt: skip
    assert search.documents(topic)["1"] == {
        "id": 1, "price": 12.5, "day": 19782, "at": 1709208000000, "tags": ["a"],
        "counts": {"x": 1},
    }  # fmt: skip


def test_maps_may_be_lists(search: SearchServer) -> None:
    topic = index()
    order = replace(record(topic, 0, "1", VALUE), value_schema=ORDER)
    assert not task(search.url, **{"compact.map.entries": "false"}).write([order])
    assert search.documents(topic)["1"]["counts"] == [{"key": "x", "value": 1}]


def test_without_keys_the_place_of_the_record_is_the_id(search: SearchServer) -> None:
    topic = index()
    for _ in range(2):
        sink = task(search.url, **{"key.ignore": "true"})
        assert not sink.write([record(topic, n, None, {"n": n}) for n in range(2)])
    assert search.documents(topic) == {f"{topic}+0+0": {"n": 0}, f"{topic}+0+1": {"n": 1}}


def test_upserts_change_the_fields_that_they_have(search: SearchServer) -> None:
    topic = index()
    sink = task(search.url, name=CONFLUENT, **{"write.method": "UPSERT"})
    records = [record(topic, 0, "k", {"a": 1, "b": 1}), record(topic, 1, "k", {"b": 2})]
    assert not sink.write(records)
    assert search.documents(topic) == {"k": {"a": 1, "b": 2}}


def test_data_streams_take_each_record_once(search: SearchServer) -> None:
    topic = index()
    options = {"data.stream.enabled": "true", "data.stream.prefix": "logs"}
    for _ in range(2):
        assert not task(search.url, **options).write([record(topic, 7, None, {"m": "x"})])
    found = search.documents(f"logs-{topic}")
    assert found == {f"{topic}+0+7": {"m": "x", "@timestamp": 1_700_000_000_000}}


def test_refused_documents_are_failed_records_and_the_others_are_written(
    search: SearchServer,
) -> None:
    topic = index()
    sink = task(search.url)
    assert not sink.write([record(topic, 0, "a", {"n": 1})])
    bad = [
        record(topic, 1, "b", {"n": "no number"}),
        record(topic, 2, None, {"n": 2}),
        record(topic, 3, "d", "no object"),
        record(topic, 4, "e", {"n": 5}),
    ]
    failed = sink.write(bad)
    assert {one.record.offset for one in failed} == {1, 2, 3}
    reasons = sorted(str(one.error) for one in failed)
    assert "a document is an object" in reasons[0]
    assert "mapper_parsing_exception" in reasons[1]
    assert "set key.ignore=true" in reasons[2]
    assert search.documents(topic) == {"a": {"n": 1}, "e": {"n": 5}}
    quiet = task(search.url, **{"behavior.on.malformed.documents": "warn"})
    assert not quiet.write([record(topic, 5, "b", {"n": "no number"})])


def test_values_of_nothing_fail_as_confluents_do(search: SearchServer) -> None:
    failed = task(search.url, name=CONFLUENT).write([record(index(), 0, "k", None)])
    assert "behavior.on.null.values" in str(failed[0].error)


def test_a_record_of_nothing_deletes_nothing(search: SearchServer) -> None:
    """A server refuses a whole request for an identifier that is empty."""
    topic = index()
    sink = task(search.url, **{"behavior.on.null.values": "delete"})
    nothing = [record(topic, 1, None, None), record(topic, 2, "", None)]
    assert not sink.write([record(topic, 0, "a", {"n": 1}), *nothing])
    assert search.documents(topic) == {"a": {"n": 1}}


def test_a_read_only_index_is_waited_for(search: SearchServer) -> None:
    topic = index()
    sink = task(search.url, **{"max.retries": "1", "retry.backoff.ms": "1"})
    assert not sink.write([record(topic, 0, "a", {"n": 1})])
    search.ask("PUT", f"/{topic}/_settings", {"index.blocks.write": True})
    with pytest.raises(Unavailable, match="cluster_block_exception"):
        sink.write([record(topic, 1, "a", {"n": 2})])
    search.ask("PUT", f"/{topic}/_settings", {"index.blocks.write": None})
    assert not sink.write([record(topic, 1, "a", {"n": 2})])
    assert search.documents(topic) == {"a": {"n": 2}}


class BusyServer:
    """Answers bulk requests by a function of their actions: what a healthy server never says."""

    def __init__(self, answer: Callable[[list[dict[str, Any]]], tuple[int, Any]]) -> None:
        self.requests: list[list[str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._send(200, {})

            def do_POST(self) -> None:
                lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
                actions = [json.loads(line) for line in lines[::2]]
                outer.requests.append([action["index"]["_id"] for action in actions])
                self._send(*answer(actions))

            def _send(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "BusyServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_documents_without_room_are_sent_again_with_their_later_changes() -> None:
    asked = 0

    def answer(actions: list[dict[str, Any]]) -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        if asked == 1:
            return 503, {"error": "starting"}
        statuses = [429 if asked == 2 and number == 1 else 200 for number in range(len(actions))]
        items = [{"index": {"status": status, "error": {"type": "full"}}} for status in statuses]
        return 200, {"errors": 429 in statuses, "items": items}

    with BusyServer(answer) as server:
        sink = task(server.url, **{"retry.backoff.ms": "1"})
        keys = ["a", "b", "c", "b"]
        assert not sink.write([record("t", n, key, {}) for n, key in enumerate(keys)])
        assert server.requests == [keys, keys, ["b", "b"]]


def test_a_server_that_stays_busy_is_unavailable() -> None:
    with BusyServer(lambda _: (429, {"error": "full"})) as server:
        sink = task(server.url, **{"retry.backoff.ms": "1", "max.retries": "2"})
        with pytest.raises(Unavailable, match="busy: HTTP 429"):
            sink.write([record("t", 0, "a", {})])
        assert len(server.requests) == 3


def test_requests_are_bounded() -> None:
    def answer(_: list[dict[str, Any]]) -> tuple[int, Any]:
        return 200, {"errors": False}

    with BusyServer(answer) as server:
        sink = task(server.url, **{"batch.size": "2"})
        sink.write([record("t", n, str(n), {}) for n in range(5)])
        assert [len(request) for request in server.requests] == [2, 2, 1]
        small = task(server.url, **{"bulk.size.bytes": "100"})
        small.write([record("t", n, str(n), {"text": "x" * 60}) for n in range(3)])
        assert [len(request) for request in server.requests[3:]] == [1, 1, 1]


def test_what_only_the_server_knows_is_checked_before_the_start(search: SearchServer) -> None:
    plugin = plugins.find_connector(OPENSEARCH)
    for url, said in ((search.url, {}), ("http://127.0.0.1:1", {"connection.url"})):
        connector = plugin.load()(plugin.settings_class.read({"connection.url": url}))
        assert connector.wrong_outside().keys() == set(said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connection.url": "ftp://x"}, "not a URL"),
        ({"connection.username": "ada"}, "belong together"),
        ({"data.stream.enabled": "true", "write.method": "upsert"}, "new documents only"),
        ({"routing.type": "value"}, "needs it"),
        ({"behavior.on.null.values": "perhaps"}, "ignore, delete, fail"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, str], message: str) -> None:
    settings = plugins.find_connector(OPENSEARCH).settings_class
    with pytest.raises(InvalidConfig, match=message):
        settings.read({"connection.url": "http://localhost:9200", **options})


def test_a_key_that_is_too_long_is_no_id(search: SearchServer) -> None:
    failed = task(search.url).write([record(index(), 0, "k" * 600, {})])
    assert isinstance(failed[0].error, DataError)
