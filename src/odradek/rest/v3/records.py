"""Version 3: produces records, one after the other in a stream, or a few in a batch.

Streaming: the body is JSON objects, one after the other, for as long as the client likes; each is
answered with one JSON object in a line, in their order. So one connection produces without a
request for each record. Records are sent as they come; at most `_MAX_IN_FLIGHT` wait for their
answers, and then no more is read from the connection. An error of a record is in its line: the
status is 200, as with Confluent's proxy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.producer.deliveries import RecordMetadata
from odradek.rest.formats import (
    BINARY,
    INVALID_PAYLOAD,
    JSON,
    JSON_CONVERSION,
    STRING,
    WITH_SCHEMA,
    decode_base64,
    is_null,
    milliseconds,
    null,
    serialized,
)
from odradek.rest.json_stream import BadStream, JsonSplitter
from odradek.rest.links import Json
from odradek.rest.producing import Outgoing, Sending, require_topic_name, send
from odradek.rest.schema_formats import CallerFormats, SchemaFormats, SchemaOf, Written
from odradek.rest.settings import RestSettings
from odradek.rest.v3.resources import (
    CLUSTER,
    NOT_FOUND,
    SERVER,
    ClusterId,
    ResourceRequest,
    Resources,
)
from odradek.services.kafka_problems import PARTITION_NOT_FOUND
from odradek.services.running import Service
from odradek.web.bodies import decode_json, read_body
from odradek.web.endpoints import Endpoint
from odradek.web.media import JSON as JSON_TYPE
from odradek.web.problems import Problem, json_response
from odradek.web.streaming import TwoWayStream

_TOPIC: Final = f"{CLUSTER}/topics/{{topic_name}}"
_MAX_IN_FLIGHT: Final = 1000
_MAX_WAITING_LINES: Final = 64 * 1024
_BATCH: Final = 42208
_BAD_REQUESTS: Final = frozenset({400, 422, JSON_CONVERSION})


class Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: str | None = None


class Data(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A key or a value: its type, its data, and for types with a schema which one."""

    type: str | None = None
    data: msgspec.Raw = msgspec.field(default_factory=null)
    subject: str | None = None
    subject_name_strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    schema: str | None = None


class ProduceRecord(msgspec.Struct, forbid_unknown_fields=True):
    partition_id: int | None = None
    headers: list[Header] | None = None
    key: Data | None = None
    value: Data | None = None
    timestamp: datetime | None = None


class Entry(ProduceRecord, kw_only=True, forbid_unknown_fields=True):
    id: Any
    """Text, which `_check_batch` verifies."""


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[Entry]


class _Part:
    """What an answer says about a key or value."""

    __slots__ = ("json", "written")

    def __init__(self, written: Written, kind: str | None) -> None:
        self.written = written.content
        self.json: Json | None = None
        if kind is not None:
            self.json = {"type": kind, **written.described, "size": len(written.content or b"")}


class _Produced:
    """A record on its way, and what its answer will say."""

    __slots__ = ("key", "sending", "value")

    def __init__(self, sending: Sending, key: _Part | None, value: _Part | None) -> None:
        self.sending = sending
        self.key = key
        self.value = value

    async def report(self, cluster_id: str) -> Json:
        """Returns the answer of one record."""
        outcome = await self.sending.outcome()
        if isinstance(outcome, Problem):
            return failure(outcome)
        return self._success(cluster_id, outcome)

    def _success(self, cluster_id: str, at: RecordMetadata) -> Json:
        answer: Json = {
            "error_code": 200,
            "cluster_id": cluster_id,
            "topic_name": at.topic,
            "partition_id": at.partition,
            "offset": at.offset,
        }
        if at.timestamp_ms >= 0:
            answer["timestamp"] = iso_time(at.timestamp_ms)
        for name, part in (("key", self.key), ("value", self.value)):
            if part is not None and part.json is not None:
                answer[name] = part.json
        return answer


def failure(problem: Problem) -> Json:
    """Returns the line of a record that failed, as in Confluent's version 3: data that are not of
    their type, or do not fit their schema, are a bad request. Other codes of 422 are within the
    message."""
    if problem.code in _BAD_REQUESTS:
        return {"error_code": 400, "message": f"Bad Request: {problem.message}"}
    if problem.status == 422:
        words = f"Error: {problem.code} : {problem.message}"
        return {"error_code": 422, "message": words}
    return {"error_code": problem.code, "message": problem.message}


def iso_time(timestamp_ms: int) -> str:
    """Returns a time as `2026-02-05T19:14:42.123Z`; beyond the year 9999, milliseconds."""
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Records(Resources):
    """Produces records."""

    def __init__(
        self, service: Service, cluster: ClusterId, settings: RestSettings, formats: SchemaFormats
    ) -> None:
        super().__init__(service, cluster)
        self._settings = settings
        self._formats = formats

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "POST", f"{_TOPIC}/records", self._stream,
                "Produces records: JSON objects, one after the other, each answered by a line.",
                changes=True, body=ProduceRecord, is_stream=True,
                responses={
                    200: "A line for each record: where it is, or error_code and message.",
                    422: "The body is empty.", **NOT_FOUND, **SERVER,
                },
            ),
            Endpoint(
                "POST", f"{_TOPIC}/records:batch", self._batch, "Produces a few records.",
                changes=True, body=Batch,
                responses={
                    207: "The records that were written, and those that failed.",
                    422: "The batch is empty or too large, or a field is missing.",
                    **NOT_FOUND, **SERVER,
                },
            ),
        ]  # fmt: skip

    async def _stream(self, request: Request) -> Response:
        topic = require_topic_name(request.path_params["topic_name"])
        length = request.headers.get("content-length")
        if length is not None and int(length) <= _MAX_WAITING_LINES:
            single = await self._single(request, topic)
            if single is not None:
                return single
        lines = self._lines(request, topic)
        # The first line is waited for, so that an error of the whole request has its status.
        first = await anext(lines, None)
        if first is None:
            raise _empty()
        return TwoWayStream(_with_first(first, lines), JSON_TYPE)

    async def _single(self, request: Request, topic: str) -> Response | None:
        """Answers a request of one record, the usual one, without a stream. Returns None for
        another one, whose body was read and is kept by `Request`."""
        body = await request.body()
        if not body.strip():
            raise _empty()
        try:
            record = msgspec.json.decode(body, type=ProduceRecord)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        async with self.asked(request) as asked:
            try:
                produced = await self._produce(asked, topic, record)
            except Problem as problem:
                # What is wrong with a record is in its line, as in a stream.
                return json_response(failure(problem))
            return json_response(await produced.report(asked.links.cluster_id))

    async def _lines(self, request: Request, topic: str) -> AsyncGenerator[bytes]:
        """Yields the answers, in the order of the records, several at a time if they are there.

        It waits for the next piece of the request and for the answer of the first record at once:
        a client may wait for each answer before it sends the next record.
        """
        waiting: deque[_Produced | Problem] = deque()
        async with self.asked(request) as asked:
            pieces = _Pieces(request.stream())
            splitter = JsonSplitter(self._settings.max_record_bytes)
            try:
                while waiting or not pieces.has_ended:
                    if waiting and _is_settled(waiting[0]):
                        yield await _report(asked, waiting)
                        continue
                    piece = await pieces.next_or(
                        _delivery(waiting), may_read=len(waiting) < _MAX_IN_FLIGHT
                    )
                    if piece is None:
                        continue
                    try:
                        for text in splitter.feed(piece):
                            waiting.append(await self._take(asked, topic, text))
                        if pieces.has_ended:
                            splitter.finish()
                    except BadStream as error:
                        # What follows has no beginning that can be found.
                        waiting.append(Problem(400, str(error)))
                        pieces.has_ended = True
            finally:
                await pieces.close()

    async def _take(self, asked: ResourceRequest, topic: str, text: bytes) -> "_Produced | Problem":
        try:
            return await self._produce(asked, topic, decode_json(text, ProduceRecord))
        except Problem as problem:
            return problem

    async def _batch(self, request: Request) -> Response:
        topic = require_topic_name(request.path_params["topic_name"])
        if not (await request.body()).strip():
            raise _bad_batch("Request body is empty. Data is required.")
        batch = await read_body(request, Batch)
        _check_batch(batch, self._settings.api_v3_produce_batch_maximum_entries)
        async with self.asked(request) as asked:
            sent: list[tuple[str, _Produced | Problem]] = []
            for entry in batch.entries:
                try:
                    sent.append((entry.id, await self._produce(asked, topic, entry)))
                except Problem as problem:
                    sent.append((entry.id, problem))
            successes, failures = [], []
            for entry_id, produced in sent:
                report = await _line(asked, produced)
                if report["error_code"] == 200:
                    del report["error_code"]
                    successes.append({"id": entry_id, **report})
                else:
                    failures.append({"id": entry_id, **report})
            return json_response({"successes": successes, "failures": failures}, status=207)

    async def _produce(
        self, asked: ResourceRequest, topic: str, record: ProduceRecord
    ) -> _Produced:
        """Sends a record. Raises a `Problem` for what is wrong with the record itself."""
        if record.partition_id is not None and not 0 <= record.partition_id < 2**31:
            raise Problem(404, "there is no such partition", code=PARTITION_NOT_FOUND)
        formats = self._formats.of(asked.clients)
        key = await _part(formats, topic, record.key, is_key=True)
        value = await _part(formats, topic, record.value, is_key=False)
        timestamp_ms = None
        if record.timestamp is not None:
            timestamp_ms = milliseconds(record.timestamp)
        outgoing = Outgoing(
            None if key is None else key.written,
            None if value is None else value.written,
            record.partition_id,
            [(header.name, _header_value(header.value)) for header in record.headers or ()],
            timestamp_ms,
        )
        return _Produced(await send(asked.clients.producer, topic, outgoing), key, value)


async def _part(
    formats: CallerFormats, topic: str, data: Data | None, *, is_key: bool
) -> _Part | None:
    if data is None:
        return None
    kind = None if data.type is None else data.type.upper()
    _require_one_schema(kind, data)
    if kind in (BINARY, STRING, JSON):
        return _Part(Written(serialized(kind, data.data)), kind)
    if kind is not None and kind not in WITH_SCHEMA:
        raise Problem(400, f"there is no type {data.type}")
    if kind is None and not _names_schema(data) and is_null(data.data):
        return None
    wanted = SchemaOf(
        kind, data.subject, data.subject_name_strategy, data.schema_id,
        data.schema_version, data.schema,
    )  # fmt: skip
    try:
        written = await formats.write(topic, wanted, data.data, is_key=is_key)
    except Problem as problem:
        if kind is not None or _names_schema(data):
            raise
        hint = "a value without a schema needs a type: STRING, JSON or BINARY"
        raise Problem(problem.status, f"{problem.message}; {hint}", code=problem.code) from None
    return _Part(written, written.kind)


def _require_one_schema(kind: str | None, data: Data) -> None:
    """Raises 400 if a key or value names its schema in two ways, of which one would be passed
    over, or has a type of which there is no schema."""
    if kind in (BINARY, STRING, JSON) and (_names_schema(data) or data.subject_name_strategy):
        raise Problem(400, f"data of type {kind} has no schema; leave out what names one")
    if data.subject is not None and data.subject_name_strategy is not None:
        raise Problem(400, "give one of subject and subject_name_strategy")
    ways = [data.schema_id, data.schema_version, data.schema]
    if sum(way is not None for way in ways) > 1:
        raise Problem(400, "give one of schema_id, schema_version and schema")
    if kind in WITH_SCHEMA and data.schema is None:
        raise Problem(
            400,
            f"with the type {kind} the schema is text; without a type it is that of schema_id or"
            " schema_version, or the newest",
        )


def _names_schema(data: Data) -> bool:
    return any(
        value is not None
        for value in (data.subject, data.schema_id, data.schema_version, data.schema)
    )


def _header_value(text: str | None) -> bytes | None:
    return None if text is None else decode_base64(text)


def _empty() -> Problem:
    return Problem(
        422, f"Error: {INVALID_PAYLOAD} : Payload error. Request body is empty. Data is required."
    )


def _check_batch(batch: Batch, most: int) -> None:
    ids = [entry.id for entry in batch.entries]
    if not ids:
        raise _bad_batch("Empty batch.")
    if len(ids) > most:
        raise _bad_batch("Too many entries in batch.")
    if not all(isinstance(one, str) and 0 < len(one) <= 80 and one.isprintable() for one in ids):
        raise _bad_batch("Batch entry identifier is not a valid string.")
    if len(set(ids)) != len(ids):
        raise _bad_batch("Batch entry IDs are not distinct.")


def _bad_batch(words: str) -> Problem:
    return Problem(422, f"Error: {_BATCH} : {words}")


async def _with_first(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for line in rest:
            yield line


def _is_settled(produced: "_Produced | Problem") -> bool:
    return isinstance(produced, Problem) or produced.sending.is_settled


async def _line(asked: ResourceRequest, produced: "_Produced | Problem") -> Json:
    if isinstance(produced, Problem):
        return failure(produced)
    return await produced.report(asked.links.cluster_id)


def _delivery(waiting: "deque[_Produced | Problem]") -> "asyncio.Future[RecordMetadata] | None":
    """Returns what the first answer waits for."""
    first = waiting[0] if waiting else None
    return first.sending.delivery if isinstance(first, _Produced) else None


class _Pieces:
    """The pieces of a request's body, which can be waited for together with something else."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._next: asyncio.Task[bytes | None] | None = None
        self.has_ended = False

    async def next_or(
        self, other: "asyncio.Future[RecordMetadata] | None", *, may_read: bool
    ) -> bytes | None:
        """Returns the next piece, b"" at the end, or None if `other` is done first. Nothing is read
        from the connection unless `may_read`."""
        if self._next is None and may_read and not self.has_ended:
            self._next = asyncio.create_task(_piece(self._stream))
        both: list[asyncio.Future[Any]] = [one for one in (self._next, other) if one is not None]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self._next is None or not self._next.done():
            return None
        piece = self._next.result()
        self._next = None
        if piece is None:
            self.has_ended = True
            return b""
        return piece

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)


async def _piece(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


async def _report(asked: ResourceRequest, waiting: "deque[_Produced | Problem]") -> bytes:
    """Returns the lines of the first records that have their answers."""
    lines: list[bytes] = []
    size = 0
    while waiting and size < _MAX_WAITING_LINES and _is_settled(waiting[0]):
        line = msgspec.json.encode(await _line(asked, waiting.popleft()))
        size += len(line)
        lines.append(line)
    return b"\r\n".join(lines) + b"\r\n"
