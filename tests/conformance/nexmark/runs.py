"""Runs a query of Nexmark, in memory or on a SQL server, and returns the rows of its result."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from odradek.client.sync import Producer
from odradek.sql.testing import SqlTester
from odradek.testing.cluster import Cluster
from tests.conformance.nexmark.batch import Event
from tests.conformance.nexmark.queries import SOURCES, Query, Row
from tests.scenarios.sql_server import SqlServer, sql_started

_ORDER: Final = ("side", "person", "auction", "bid")
_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 0.2
Events = Mapping[str, Sequence[Event]]
IsRight = Callable[[list[Row]], bool]


def _record(topic: str, event: Event) -> tuple[bytes | None, bytes, int]:
    value = {name: one for name, one in event.items() if name != "came_ms"}
    key = value.pop("id").to_bytes(8, "big") if topic == "side" else None
    return key, json.dumps(value).encode(), event["came_ms"]


class Runs(ABC):
    @abstractmethod
    def rows(self, query: Query, events: Events, is_right: IsRight) -> list[Row]:
        """Returns the rows of the result: those of a stream, or those that a table has at the end.
        Raises `SqlError` if a statement is refused."""


class InMemory(Runs):
    def rows(self, query: Query, events: Events, is_right: IsRight) -> list[Row]:
        tester = SqlTester()
        tester.run(SOURCES + query.statements)
        for topic in _ORDER:
            for event in events[topic]:
                key, value, time_ms = _record(topic, event)
                tester.append(topic, key, value, time_ms)
        tester.deliver()
        source = tester.catalogue.source(query.result)
        rows = tester.rows(query.result)
        if not source.is_table:
            return [row for row, _ in rows]
        names = [column.name for column in source.schema.key]
        newest: dict[tuple[Any, ...], Row] = {}
        for row, is_tombstone in rows:
            window = (row.get("WINDOWSTART"), row.get("WINDOWEND"))
            key_of_row = (*(row[name] for name in names), *window)
            newest.pop(key_of_row, None)
            if not is_tombstone:
                newest[key_of_row] = row
        return list(newest.values())


class Refused(AssertionError):
    """The server has not carried a statement out."""


class OnServer(Runs):
    """Each query runs alone, over the same topics; what it made is dropped after it."""

    def __init__(self, server: SqlServer, bootstrap: str) -> None:
        self._server = server
        self._bootstrap = bootstrap
        self._has_events = False

    def rows(self, query: Query, events: Events, is_right: IsRight) -> list[Row]:
        self._ksql(SOURCES)
        if not self._has_events:
            self._write(events)
        self._ksql(query.statements)
        is_table = any(
            one["name"] == query.result for one in self._ksql("SHOW TABLES;")[0]["tables"]
        )
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            # Of a stream, all rows; of a table, those that it has now.
            rows = self._pulled(f"SELECT * FROM {query.result};", is_table)
            if is_right(rows) or time.monotonic() > deadline_s:
                break
            time.sleep(_LOOK_S)
        self._drop_all()
        return rows

    def _pulled(self, text: str, is_table: bool) -> list[Row]:
        status, body = self._server.ask(
            "POST", "/query-stream",
            {"sql": text, "properties": {"ksql.streams.auto.offset.reset": "earliest"}},
        )  # fmt: skip
        if status != 200:
            raise Refused(body.decode())
        head, *rows = (json.loads(line) for line in body.splitlines())
        return [dict(zip(head["columnNames"], row, strict=True)) for row in rows]

    def _write(self, events: Events) -> None:
        self._has_events = True
        self._ksql("CREATE TABLE side_topic (id BIGINT PRIMARY KEY, text STRING) WITH"
                   " (kafka_topic='side', value_format='JSON', partitions=1);")  # fmt: skip
        with Producer({"bootstrap.servers": self._bootstrap}) as producer:
            for topic in _ORDER:
                for event in events[topic]:
                    key, value, time_ms = _record(topic, event)
                    producer.send(topic, value, key, timestamp_ms=time_ms)
            producer.flush()

    def _ksql(self, text: str) -> Any:
        answer = self._server.ksql(text)
        if isinstance(answer, dict):
            raise Refused(answer["message"])
        return answer

    def _drop_all(self) -> None:
        """Ends all queries, and deletes what they wrote."""
        self._ksql("TERMINATE ALL;")
        kept = {"person", "auction", "bid", "side"}
        for what in ("TABLE", "STREAM"):
            listed = self._ksql(f"SHOW {what}S;")[0][f"{what.lower()}s"]
            for one in listed:
                delete = (
                    "" if one["topic"] in kept or one["topic"] == "q5_windows" else " DELETE TOPIC"
                )
                self._ksql(f"DROP {what} {one['name']}{delete};")


@contextmanager
def on_server(engine: str, logs: Path) -> Iterator[OnServer]:
    with (
        # The events are of 2015: nothing may delete them.
        Cluster(settings={"log.retention.ms": "-1"}) as cluster,
        sql_started(logs, cluster.bootstrap, f"odradek.sql.engine={engine}") as server,
    ):
        yield OnServer(server, cluster.bootstrap)
