"""Version 3, and ours: records by offset and time, the newest record of a key, and a live tail.

Confluent's version 3 produces but does not read. These endpoints need no group and no instance:
each request says what it wants, so any proxy can answer it.

    GET .../topics/{t}/partitions/{p}/records?offset=10&max_records=100
    GET .../topics/{t}/partitions/{p}/records?timestamp=2026-02-05T19:14:42Z
    GET .../topics/{t}/records?key=4711                  the newest record of a key
    GET .../topics/{t}/records:stream                    server-sent events
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.consumer.consumer import Consumer, ConsumerRecord
from odradek.client.errors import OffsetOutOfRange, UnsupportedVersion
from odradek.protocol.types import TopicPartition
from odradek.rest.formats import decode_base64, encode_base64
from odradek.rest.links import Json
from odradek.rest.offset_ranges import offset_range
from odradek.rest.producing import require_topic_name
from odradek.rest.schema_formats import CallerFormats, SchemaFormats
from odradek.rest.v3.records import iso_time
from odradek.rest.v3.resources import (
    CLUSTER,
    NOT_FOUND,
    OK,
    SERVER,
    ClusterId,
    ResourceRequest,
    Resources,
)
from odradek.services.client_pool import RECHECK_S
from odradek.services.identity import caller_in
from odradek.services.kafka_problems import BAD_REQUEST
from odradek.services.running import Service
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.media import EVENTS
from odradek.web.problems import Problem, json_response
from odradek.web.streaming import EventStream, event

_TOPIC: Final = f"{CLUSTER}/topics/{{topic_name}}"
_MAX_RECORDS: Final = 10_000
_MAX_TIMEOUT_MS: Final = 30_000
_MAX_OFFSET: Final = 2**63 - 1
_TAIL_POLL_MS: Final = 1000
_TAIL_FETCH_BYTES: Final = 1_000_000
_TIMESTAMP_TYPES: Final = {0: "CREATE_TIME", 1: "LOG_APPEND_TIME"}


class Reading(Resources):
    """Reads records without a group."""

    def __init__(
        self, service: Service, cluster: ClusterId, formats: SchemaFormats, max_bytes: int
    ) -> None:
        super().__init__(service, cluster)
        self._formats = formats
        self._max_bytes = max_bytes
        answers = {**OK, **NOT_FOUND, **SERVER}
        self.by_offset = Endpoint(
            "GET", f"{_TOPIC}/partitions/{{partition_id:int}}/records", self._records,
            "Records of a partition from an offset or a time on, with headers and timestamps.",
            (
                Parameter("offset", doc="Where to begin; also earliest and latest."),
                Parameter("timestamp", doc="Begin at a time: milliseconds, or as in ISO 8601."),
                Parameter("max_records", int, 100, f"At most so many, up to {_MAX_RECORDS}."),
                Parameter("max_bytes", int, None, "At most so many bytes of keys and values."),
                Parameter("timeout", int, 0, "How many milliseconds to wait for a record."),
                Parameter("isolation_level", str, "read_uncommitted", "Or read_committed."),
            ),
            responses=answers,
        )  # fmt: skip
        self.by_key = Endpoint(
            "GET", f"{_TOPIC}/records", self._look_up,
            "The newest record of a key. It needs Odradek's brokers.",
            (
                Parameter("key", doc="The key: text, or base64 with key_type=BINARY."),
                Parameter("key_type", str, "STRING", "STRING or BINARY."),
                Parameter("partition", int, None, "The partition, if another partitioner chose."),
                Parameter("all_partitions", bool, False, "Ask all of them."),
            ),
            responses=answers,
        )  # fmt: skip
        self.tail = Endpoint(
            "GET", f"{_TOPIC}/records:stream", self._tail,
            "Records as they come, as server-sent events; Last-Event-ID goes on after a break.",
            (
                Parameter("from", str, "latest", "latest, earliest or a time."),
                Parameter("partition", int, None, "One partition; all if it is left out."),
                Parameter("isolation_level", str, "read_uncommitted", "Or read_committed."),
            ),
            produces=(EVENTS,), is_stream=True, responses=answers,
        )  # fmt: skip

    def endpoints(self) -> list[Endpoint]:
        return [self.by_offset, self.by_key, self.tail]

    # By offset and time

    async def _records(self, request: Request) -> Response:
        query = _Query.of(self.by_offset.query(request), self._max_bytes)
        topic = require_topic_name(request.path_params["topic_name"])
        async with self.asked(request) as asked:
            index = asked.path["partition_id"]
            await asked.partition(topic, index)
            partition = TopicPartition(topic, index)
            first, end = await offset_range(asked.admin, partition)
            async with _reader(asked, query.isolation_level) as reader:
                start = await _start(reader, partition, query, first, end)
                records = await _read(reader, partition, start, query)
            data = [await self._json(asked, record) for record in records]
            next_offset = records[-1].offset + 1 if records else start
            path = ("topics", topic, "partitions", index, "records")
            answer = asked.links.collection("Record", path, data)
            following = f"{asked.links.url(*path)}?offset={next_offset}"
            answer["metadata"]["next"] = following if records or start < end else None
            answer |= {
                "cluster_id": asked.links.cluster_id, "topic_name": topic, "partition_id": index,
                "next_offset": next_offset, "earliest_offset": first, "latest_offset": end,
            }  # fmt: skip
            return json_response(answer)

    async def _json(self, asked: ResourceRequest, record: ConsumerRecord) -> Json:
        topic, index, offset = record.topic, record.partition, record.offset
        return asked.links.resource(
            "Record", ("topics", topic, "partitions", index, "records"),
            {"topic": topic, "partition": index, "record": offset},
            **await record_json(self._formats.of(asked.clients), record),
        )  # fmt: skip

    # By key

    async def _look_up(self, request: Request) -> Response:
        query = self.by_key.query(request)
        if query["key"] is None:
            raise Problem(400, "say which key: ?key=4711", code=BAD_REQUEST)
        kind = str(query["key_type"]).upper()
        if kind not in {"STRING", "BINARY"}:
            raise Problem(400, "key_type is STRING or BINARY", code=BAD_REQUEST)
        key = decode_base64(query["key"]) if kind == "BINARY" else query["key"].encode()
        topic = require_topic_name(request.path_params["topic_name"])
        index, everywhere = query["partition"], query["all_partitions"]
        if index is not None and everywhere:
            raise Problem(400, "give partition or all_partitions, not both", code=BAD_REQUEST)
        async with self.asked(request) as asked:
            if index is not None:
                await asked.partition(topic, index)
            async with asked.clients.reader() as reader:
                try:
                    found = await reader.get(topic, key, partition=index, all_partitions=everywhere)
                except UnsupportedVersion as error:
                    raise Problem(400, str(error), code=BAD_REQUEST) from None
            if found is None:
                raise Problem(404, f"topic {topic} has no record of this key")
            return json_response(await self._json(asked, found))

    # As they come

    async def _tail(self, request: Request) -> Response:
        query = self.tail.query(request)
        topic = require_topic_name(request.path_params["topic_name"])
        begin = _begin(query["from"])
        isolation_level = _isolation_level(query["isolation_level"])
        resumed = _resumed(request.headers.get("last-event-id"))
        async with self.asked(request) as asked:
            known = (await asked.topic(topic)).partitions
            wanted = list(known) if query["partition"] is None else [query["partition"]]
            if not set(wanted) <= set(known):
                raise Problem(404, f"topic {topic} has no partition {wanted[0]}", code=40402)
            properties = asked.clients.properties("consumer")
        properties |= {
            "fetch.max.bytes": _TAIL_FETCH_BYTES,
            "max.partition.fetch.bytes": _TAIL_FETCH_BYTES,
            "isolation.level": isolation_level,
            "auto.offset.reset": "earliest",
        }
        properties.pop("group.id", None)
        partitions = [TopicPartition(topic, index) for index in wanted]
        # All partitions have their place before the answer begins: what comes later is not missed.
        consumer = Consumer(properties)
        try:
            await _position(consumer, partitions, begin, resumed)
        except BaseException:
            await consumer.close(0)
            raise
        return EventStream(self._events(request, consumer))

    async def _events(self, request: Request, consumer: Consumer) -> AsyncGenerator[bytes]:
        """Yields an event for each record, until the client goes or is no longer let in."""
        is_required = self._service.settings.uses_sasl
        caller = caller_in(request.scope, is_required=is_required)
        loop = asyncio.get_running_loop()
        check_at_s = loop.time() + RECHECK_S
        places: dict[int, int] = {}
        try:
            while True:
                polled = await consumer.poll(_TAIL_POLL_MS, 100)
                for record in [one for records in polled.values() for one in records]:
                    places[record.partition] = record.offset + 1
                    try:
                        async with self._service.pool.clients(caller) as clients:
                            content = await record_json(self._formats.of(clients), record)
                    except Problem:
                        return  # The brokers refuse its log-in now.
                    yield event(msgspec.json.encode(content), name="record", id_=_id(places))
                if loop.time() >= check_at_s:
                    check_at_s = loop.time() + RECHECK_S
                    if not await self._service.pool.is_let_in(caller):
                        return
        finally:
            await consumer.close(0)


@dataclass(frozen=True, slots=True)
class _Query:
    """The checked parameters of a read."""

    begin: int | str
    is_time: bool
    max_records: int
    max_bytes: int
    timeout_ms: int
    isolation_level: str

    @classmethod
    def of(cls, query: dict[str, Any], max_bytes: int) -> "_Query":
        if query["offset"] is not None and query["timestamp"] is not None:
            raise Problem(400, "give offset or timestamp, not both", code=BAD_REQUEST)
        is_time = query["timestamp"] is not None
        begin = time_ms(query["timestamp"]) if is_time else _offset(query["offset"] or "earliest")
        count, timeout_ms = query["max_records"], query["timeout"]
        asked_bytes = max_bytes if query["max_bytes"] is None else query["max_bytes"]
        if not 1 <= count <= _MAX_RECORDS:
            raise Problem(400, f"max_records is from 1 to {_MAX_RECORDS}", code=BAD_REQUEST)
        if not 0 <= timeout_ms <= _MAX_TIMEOUT_MS:
            raise Problem(400, f"timeout is from 0 to {_MAX_TIMEOUT_MS} ms", code=BAD_REQUEST)
        if asked_bytes < 1:
            raise Problem(400, "max_bytes is a number above 0", code=BAD_REQUEST)
        return cls(
            begin, is_time, count, min(asked_bytes, max_bytes), timeout_ms,
            _isolation_level(query["isolation_level"]),
        )  # fmt: skip


def _isolation_level(text: str) -> str:
    if text not in {"read_committed", "read_uncommitted"}:
        raise Problem(
            400, "isolation_level is read_committed or read_uncommitted", code=BAD_REQUEST
        )
    return text


def _offset(text: str) -> int | str:
    if text in {"earliest", "latest"}:
        return text
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > _MAX_OFFSET:
        raise Problem(400, "offset is a number, earliest or latest", code=BAD_REQUEST)
    return int(text)


def time_ms(text: str) -> int:
    """Reads a time: milliseconds since 1970, or ISO 8601 (UTC if it names no zone)."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
        zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
        return max(0, int(zoned.timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Problem(
            400, "a time is milliseconds since 1970, or as 2026-02-05T19:14:42Z", code=BAD_REQUEST
        ) from None


def _begin(text: str) -> int | str:
    return text if text in {"earliest", "latest"} else time_ms(text)


@asynccontextmanager
async def _reader(asked: ResourceRequest, isolation_level: str) -> AsyncIterator[Consumer]:
    """Lends a reader; one that reads committed records is made for the request."""
    if isolation_level == "read_uncommitted":
        async with asked.clients.reader() as reader:
            yield reader
        return
    properties = asked.clients.properties("consumer")
    properties.pop("group.id", None)
    properties |= {"isolation.level": isolation_level, "auto.offset.reset": "none"}
    async with Consumer(properties) as reader:
        yield reader


async def _start(
    reader: Consumer, partition: TopicPartition, query: _Query, first: int, end: int
) -> int:
    """Returns the offset to begin at. An offset below the first one begins at the first: records
    may have been deleted between two requests. One beyond the end is an error."""
    if query.begin == "earliest":
        return first
    if query.begin == "latest":
        return end
    assert isinstance(query.begin, int)
    if query.is_time:
        found = (await reader.offsets_for_times({partition: query.begin}))[partition]
        return end if found is None else found.offset
    if query.begin > end:
        raise Problem(
            400, f"offset {query.begin} is beyond the end of the log, {end}", code=BAD_REQUEST
        )
    return max(query.begin, first)


async def _read(
    reader: Consumer, partition: TopicPartition, start: int, query: _Query
) -> list[ConsumerRecord]:
    """Returns records from `start` on, as soon as there are enough or time is up."""
    loop = asyncio.get_running_loop()
    # A first answer takes a moment, also if the caller does not want to wait for new records.
    deadline_s = loop.time() + max(query.timeout_ms, 50) / 1000
    reader.assign([partition])
    reader.seek(partition, start)
    found: list[ConsumerRecord] = []
    size = 0
    end = (await reader.end_offsets([partition]))[partition]
    while len(found) < query.max_records and size < query.max_bytes:
        position = found[-1].offset + 1 if found else start
        wait_s = deadline_s - loop.time()
        if position >= end and (found or query.timeout_ms == 0 or wait_s <= 0):
            break
        # Up to the end that was there at first, records come for certain.
        wait_ms = _MAX_TIMEOUT_MS if position < end else max(1, int(wait_s * 1000))
        try:
            polled = await reader.poll(wait_ms, query.max_records - len(found))
        except OffsetOutOfRange:
            break
        taken = polled.get(partition, [])
        if not taken and position < end and await reader.position(partition) >= end:
            # Only aborted records or markers of transactions were left.
            break
        for record in taken:
            size += len(record.key or b"") + len(record.value or b"")
            if found and size > query.max_bytes:
                break
            found.append(record)
    return found


async def record_json(formats: CallerFormats, record: ConsumerRecord) -> Json:
    """Returns a record as JSON, with headers and timestamp."""
    return {
        "topic_name": record.topic,
        "partition_id": record.partition,
        "offset": record.offset,
        "timestamp": iso_time(record.timestamp_ms) if record.timestamp_ms >= 0 else None,
        "timestamp_type": _TIMESTAMP_TYPES.get(record.timestamp_type, "NO_TIMESTAMP_TYPE"),
        "headers": [
            {"name": name, "value": None if value is None else encode_base64(value)}
            for name, value in record.headers
        ],
        "key": await formats.shown(record.key, record.headers, "key"),
        "value": await formats.shown(record.value, record.headers, "value"),
    }


# Server-sent events: an id is the place in each partition, so that a reader goes on where it was


def _id(places: dict[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in sorted(places.items()))


def _resumed(text: str | None) -> dict[int, int]:
    """Reads `Last-Event-ID`; what is no id of ours is skipped, as a browser may send any."""
    places: dict[int, int] = {}
    for part in (text or "")[:20_000].split(","):
        index, _, offset = part.partition(":")
        if index.isdecimal() and offset.isdecimal() and len(index) < 10 and len(offset) < 19:
            places[int(index)] = int(offset)
    return places


async def _position(
    consumer: Consumer,
    partitions: list[TopicPartition],
    begin: int | str,
    resumed: dict[int, int],
) -> None:
    consumer.assign(partitions)
    if begin == "latest":
        places = dict(await consumer.end_offsets(partitions))
    elif begin == "earliest":
        places = dict(await consumer.beginning_offsets(partitions))
    else:
        assert isinstance(begin, int)
        places = dict(await consumer.end_offsets(partitions))
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, begin))
        places |= {one: listed.offset for one, listed in found.items() if listed is not None}
    for partition in partitions:
        consumer.seek(partition, resumed.get(partition.partition, places[partition]))
