"""Version 2: consumer instances are created, told what to read, read from, and deleted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.consumer.consumer import Consumer, ConsumerRecord
from odradek.client.errors import CommitFailed, Wakeup
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.protocol.types import TopicPartition
from odradek.rest.formats import WITH_SCHEMA, as_json, encode_base64, milliseconds
from odradek.rest.links import Json, base_url, joined
from odradek.rest.producing import require_topic_name
from odradek.rest.schema_formats import CallerFormats, SchemaFormats
from odradek.rest.settings import RestSettings
from odradek.rest.v2.bodies import (
    At,
    Flag,
    NewInstance,
    Number,
    Offsets,
    Partitions,
    Positions,
    Subscription,
)
from odradek.rest.v2.instances import ILLEGAL_STATE, Instance, Instances, owner_of
from odradek.rest.v2.media import (
    CONSUMER_ANSWERS,
    CONSUMER_REQUESTS,
    FORMAT_OF,
    FORMATS,
    NOT_DECODED,
)
from odradek.services.identity import Caller, caller_in
from odradek.services.kafka_problems import PARTITION_NOT_FOUND
from odradek.services.running import Service
from odradek.web.bodies import decode_json, read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.media import MEDIA_TYPE
from odradek.web.problems import Problem, negotiated_response
from odradek.world.randomness import Randomness

_GROUP: Final = "/consumers/{group}"
_INSTANCE: Final = f"{_GROUP}/instances/{{instance}}"
_INVALID_CONFIG: Final = 42204
_CONSTRAINT: Final = 40001
_FORMAT_MISMATCH: Final = 40601
_MAX_OFFSET: Final = 2**63 - 2
_MAX_NAME: Final = 249


class Consumers:
    """The endpoints of consumer instances."""

    def __init__(
        self,
        service: Service,
        settings: RestSettings,
        instances: Instances,
        formats: SchemaFormats,
    ) -> None:
        self._service = service
        self._settings = settings
        self._instances = instances
        self._formats = formats
        self._randomness = Randomness()
        self._read_endpoint = Endpoint(
            "GET", f"{_INSTANCE}/records", self._records, "Reads records.",
            (
                Parameter("timeout", int, -1, "How many milliseconds to wait."),
                Parameter("max_bytes", int, -1, "At most so many bytes of keys and values."),
            ),
            produces=CONSUMER_ANSWERS,
            responses={**_ANSWER, 406: "The instance has another format."},
        )  # fmt: skip

    def endpoints(self) -> list[Endpoint]:
        def post(path: str, handler: Any, summary: str, body: Any, *, done: int = 204) -> Endpoint:
            responses = {**_ERRORS, done: "It is done."}
            return Endpoint(
                "POST", path, handler, summary, changes=True, body=body,
                media_types=CONSUMER_REQUESTS, produces=CONSUMER_ANSWERS, responses=responses,
                needs_body=body not in (NewInstance, Offsets),
            )  # fmt: skip

        def get(path: str, handler: Any, summary: str, body: Any = None) -> Endpoint:
            return Endpoint(
                "GET", path, handler, summary, body=body, media_types=CONSUMER_REQUESTS,
                produces=CONSUMER_ANSWERS, responses=_ANSWER,
            )  # fmt: skip

        def delete(path: str, handler: Any, summary: str) -> Endpoint:
            return Endpoint(
                "DELETE", path, handler, summary, changes=True, produces=CONSUMER_ANSWERS,
                media_types=CONSUMER_REQUESTS, responses={**_ERRORS, 204: "It is done."},
            )  # fmt: skip

        positions = f"{_INSTANCE}/positions"
        return [
            post(_GROUP, self._create, "Creates a consumer instance.", NewInstance, done=200),
            delete(_INSTANCE, self._delete, "Deletes a consumer instance."),
            post(f"{_INSTANCE}/subscription", self._subscribe, "Subscribes.", Subscription),
            get(f"{_INSTANCE}/subscription", self._subscription, "The subscribed topics."),
            delete(f"{_INSTANCE}/subscription", self._unsubscribe, "Ends the subscription."),
            self._read_endpoint,
            post(f"{_INSTANCE}/offsets", self._commit, "Commits offsets.", Offsets, done=200),
            get(f"{_INSTANCE}/offsets", self._committed, "Committed offsets.", Partitions),
            post(f"{_INSTANCE}/assignments", self._assign, "Assigns by hand.", Partitions),
            get(f"{_INSTANCE}/assignments", self._assignments, "What is assigned."),
            post(positions, self._seek, "Moves to offsets.", Positions),
            post(f"{positions}/beginning", self._to_beginning, "Moves to the first.", Partitions),
            post(f"{positions}/end", self._to_end, "Moves to the end.", Partitions),
        ]

    def _caller(self, request: Request) -> Caller:
        return caller_in(request.scope, is_required=self._service.settings.uses_sasl)

    @asynccontextmanager
    async def _using(self, request: Request) -> AsyncIterator[Instance]:
        path = request.path_params
        owner = owner_of(self._caller(request))
        async with self._instances.using(owner, path["group"], path["instance"]) as instance:
            yield instance

    # Life

    async def _create(self, request: Request) -> Response:
        body = await request.body()
        new = decode_json(body, NewInstance) if body.strip() else NewInstance()
        group: str = request.path_params["group"]
        name = new.name or new.id or self._new_name()
        _require_name(group, name)
        owner = owner_of(self._caller(request))
        self._instances.require_room(owner, group, name)
        format_ = (new.format or "binary").lower()
        if format_ not in FORMATS:
            raise _invalid("format is one of " + ", ".join(FORMATS))
        async with self._service.clients(request) as clients:
            properties = clients.properties("consumer") | _properties(new, group)
        instance = Instance(
            Consumer(properties),
            format_,
            _number(new.timeout, self._settings.consumer_request_timeout_ms, 600_000, "timeout"),
            _min_bytes(new.min_bytes, self._settings.fetch_min_bytes),
        )
        self._instances.add(owner, group, name, instance)
        uri = f"{base_url(request, self._service.settings)}/"
        uri += joined("consumers", group, "instances", name)
        return negotiated_response(request, {"instance_id": name, "base_uri": uri})

    def _new_name(self) -> str:
        prefix = f"rest-consumer-{self._settings.id}-" if self._settings.id else "rest-consumer-"
        return prefix + str(UUID(bytes=self._randomness.bytes(16), version=4))

    async def _delete(self, request: Request) -> Response:
        path = request.path_params
        owner = owner_of(self._caller(request))
        await self._instances.delete(owner, path["group"], path["instance"])
        return Response(status_code=204)

    # What to read

    async def _subscribe(self, request: Request) -> Response:
        wanted = await read_body(request, Subscription)
        if bool(wanted.topics) == bool(wanted.topic_pattern):
            raise _illegal("give topics or topic_pattern")
        async with self._using(request) as instance:
            if not instance.consumer.subscription() and instance.consumer.assignment():
                raise _illegal("partitions are assigned by hand; delete the instance to subscribe")
            if wanted.topic_pattern is not None and not wanted.topics:
                async with self._service.clients(request) as clients:
                    await instance.subscribe_pattern(wanted.topic_pattern, clients)
            else:
                instance.subscribe([require_topic_name(topic) for topic in wanted.topics or ()])
            return Response(status_code=204)

    async def _subscription(self, request: Request) -> Response:
        async with self._using(request) as instance:
            return negotiated_response(request, {"topics": instance.consumer.subscription()})

    async def _unsubscribe(self, request: Request) -> Response:
        async with self._using(request) as instance:
            await instance.unsubscribe()
            return Response(status_code=204)

    async def _assign(self, request: Request) -> Response:
        wanted = _partitions(await read_body(request, Partitions))
        async with self._using(request) as instance:
            if instance.consumer.subscription() or instance.has_pattern:
                raise _illegal("the instance has subscribed; end the subscription to assign")
            instance.consumer.assign(wanted)
            return Response(status_code=204)

    async def _assignments(self, request: Request) -> Response:
        async with self._using(request) as instance:
            found = [
                {"topic": topic, "partition": index}
                for topic, index in instance.consumer.assignment()
            ]
            return negotiated_response(request, {"partitions": found})

    # Where to read

    async def _seek(self, request: Request) -> Response:
        wanted = await read_body(request, Positions)
        if wanted.offsets is None and wanted.timestamps is None:
            raise Problem(422, "give offsets or timestamps")
        async with self._using(request) as instance:
            places = {_partition(one): _checked(one.offset) for one in wanted.offsets or ()}
            times = {
                _partition(timestamp): milliseconds(timestamp.timestamp)
                for timestamp in wanted.timestamps or ()
            }
            _require_assigned(instance, [*places, *times])
            for partition, offset in places.items():
                instance.consumer.seek(partition, offset)
            for partition, timestamp_ms in times.items():
                instance.consumer.seek_to_timestamp(timestamp_ms, [partition])
            return Response(status_code=204)

    async def _to_beginning(self, request: Request) -> Response:
        return await self._move(request, Consumer.seek_to_beginning)

    async def _to_end(self, request: Request) -> Response:
        return await self._move(request, Consumer.seek_to_end)

    async def _move(self, request: Request, seek: Callable[..., None]) -> Response:
        wanted = _partitions(await read_body(request, Partitions))
        async with self._using(request) as instance:
            _require_assigned(instance, wanted)
            if wanted:
                seek(instance.consumer, wanted)
            return Response(status_code=204)

    # Offsets

    async def _commit(self, request: Request) -> Response:
        body = await request.body()
        wanted = decode_json(body, Offsets) if body.strip() else Offsets()
        async with self._using(request) as instance:
            if not wanted.offsets:
                # Without offsets, all that was read so far.
                if instance.consumer.assignment():
                    await instance.consumer.commit()
                return negotiated_response(request, [])
            # A request names the last record that was handled; the group continues after it.
            offsets = {
                _partition(offset): OffsetAndMetadata(
                    _checked(offset.offset) + 1, offset.metadata or ""
                )
                for offset in wanted.offsets
            }
            try:
                await instance.consumer.commit(offsets)
            except CommitFailed:
                raise _illegal(
                    "the instance is not a member of its group now: reading records joins it"
                ) from None
            done = [
                {
                    "topic": topic, "partition": index, "consumed": committed.offset - 1,
                    "committed": committed.offset,
                }
                for (topic, index), committed in offsets.items()
            ]  # fmt: skip
            return negotiated_response(request, done)

    async def _committed(self, request: Request) -> Response:
        body = await request.body()
        if not body.strip():
            raise Problem(404, "Partition not found.", code=PARTITION_NOT_FOUND)
        wanted = _partitions(decode_json(body, Partitions))
        async with self._using(request) as instance:
            found = await instance.consumer.committed(wanted) if wanted else {}
            offsets = [
                {
                    "topic": topic, "partition": index, "offset": offset.offset,
                    "metadata": offset.metadata,
                }
                for (topic, index), offset in found.items()
                if offset is not None
            ]  # fmt: skip
            return negotiated_response(request, {"offsets": offsets})

    # Records

    async def _records(self, request: Request) -> Response:
        query = self._read_endpoint.query(request)
        async with self._using(request) as instance:
            asked_for = FORMAT_OF.get(request.scope[MEDIA_TYPE])
            if asked_for is not None and asked_for != instance.format:
                raise Problem(
                    406,
                    "The requested embedded data format does not match the deserializer for this"
                    " consumer instance",
                    code=_FORMAT_MISMATCH,
                )
            if instance.has_pattern:
                async with self._service.clients(request) as clients:
                    await instance.match_again(clients)
            consumer = instance.consumer
            if not consumer.subscription() and not consumer.assignment():
                if instance.has_pattern:
                    return negotiated_response(request, [])
                raise _illegal("subscribe to topics or assign partitions first")
            records = await self._poll(instance, query["timeout"], query["max_bytes"])
            try:
                async with self._service.clients(request) as clients:
                    formats = self._formats.of(clients)
                    shown = [await _json(formats, instance.format, record) for record in records]
            except BaseException:  # Also when the client goes: it has not seen them.
                consumer.return_unseen(_by_partition(records))
                raise
            return negotiated_response(request, shown)

    async def _poll(self, instance: Instance, timeout: int, max_bytes: int) -> list[ConsumerRecord]:
        """Returns records as soon as there are enough bytes of them, or time is up."""
        loop = asyncio.get_running_loop()
        timeout_ms = instance.timeout_ms if timeout < 0 else min(timeout, 600_000)
        limit = self._settings.consumer_request_max_bytes
        limit = limit if max_bytes <= 0 else min(max_bytes, limit)
        deadline_s = loop.time() + timeout_ms / 1000
        found: list[ConsumerRecord] = []
        size = 0
        while True:
            wait_ms = max(0, int((deadline_s - loop.time()) * 1000))
            try:
                polled = await instance.consumer.poll(wait_ms)
            except Wakeup:
                raise Problem(404, "Consumer instance not found.", code=40403) from None
            taken = [record for records in polled.values() for record in records]
            for place, record in enumerate(taken):
                size += _size(record)
                if found and size > limit:
                    # What does not fit is read again by the next request.
                    instance.consumer.return_unseen(_by_partition(taken[place:]))
                    return found
                found.append(record)
            if found and size >= instance.min_bytes:
                return found
            if loop.time() >= deadline_s:
                return found


async def _json(formats: CallerFormats, format_: str, record: ConsumerRecord) -> Json:
    return {
        "topic": record.topic,
        "key": await _shown(formats, format_, record, "key"),
        "value": await _shown(formats, format_, record, "value"),
        "partition": record.partition,
        "offset": record.offset,
    }


async def _shown(formats: CallerFormats, format_: str, record: ConsumerRecord, part: str) -> Any:
    value = record.key if part == "key" else record.value
    if value is None:
        return None
    if format_ == "binary":
        return encode_base64(value)
    if format_ == "json":
        found = as_json(value)
        if found is None:
            raise _not_decoded("JSON", record)
        return found
    shown = await formats.shown(value, record.headers, part)
    if shown is None or shown["type"] not in WITH_SCHEMA:
        raise _not_decoded(format_, record)
    return shown["data"]


_ERRORS: Final = {
    404: "There is no such consumer instance or partition.",
    409: "The instance is in another state.",
    500: "An error of the brokers.",
}
_ANSWER: Final = {**_ERRORS, 200: "The answer."}


def _size(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _by_partition(records: list[ConsumerRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found


def _not_decoded(format_: str, record: ConsumerRecord) -> Problem:
    return Problem(
        408,
        f"the record at offset {record.offset} of {record.topic}-{record.partition} is not"
        f" {format_}; seek past it, or read with the format binary",
        code=NOT_DECODED,
    )


def _properties(new: NewInstance, group: str) -> dict[str, object]:
    properties: dict[str, object] = {"group.id": group}
    reset = (new.reset or "latest").lower()
    if reset not in {"earliest", "latest", "none"}:
        raise Problem(
            422,
            "Invalid consumer configuration. It does not abide by the constraints:"
            " auto.offset.reset is earliest, latest or none",
            code=_CONSTRAINT,
        )
    properties["auto.offset.reset"] = reset
    properties["enable.auto.commit"] = _flag(new.commit)
    if new.isolation is not None:
        isolation = new.isolation.lower()
        if isolation not in {"read_committed", "read_uncommitted"}:
            raise _invalid("isolation.level is read_committed or read_uncommitted")
        properties["isolation.level"] = isolation
    return properties


def _flag(given: Flag | None) -> bool:
    if given is None:
        return True
    if isinstance(given, bool):
        return given
    if given.lower() not in {"true", "false"}:
        raise _invalid("auto.commit.enable is true or false")
    return given.lower() == "true"


def _number(given: Number | None, default: int, most: int, name: str) -> int:
    if given is None:
        return default
    try:
        number = int(given)
    except ValueError:
        number = -2
    if not -1 <= number <= most:
        raise _invalid(f"{name} is a number up to {most}")
    return default if number < 0 else number


def _min_bytes(given: Number | None, default: int) -> int:
    return _number(given, default, 10_000_000, "fetch.min.bytes")


def _invalid(words: str) -> Problem:
    return Problem(422, f"Invalid consumer configuration: {words}", code=_INVALID_CONFIG)


def _illegal(words: str) -> Problem:
    return Problem(409, f"Illegal state: {words}", code=ILLEGAL_STATE)


def _require_name(group: str, name: str) -> None:
    for word, text in (("group", group), ("name", name)):
        if not 0 < len(text) <= _MAX_NAME or not text.isprintable():
            raise _invalid(f"the {word} has from 1 to {_MAX_NAME} printable characters")


def _partition(at: At) -> TopicPartition:
    if not 0 <= at.partition < 2**31:
        raise Problem(404, "Partition not found.", code=PARTITION_NOT_FOUND)
    return TopicPartition(require_topic_name(at.topic), at.partition)


def _partitions(body: Partitions) -> list[TopicPartition]:
    return [_partition(partition) for partition in body.partitions]


def _checked(offset: int) -> int:
    if not 0 <= offset <= _MAX_OFFSET:
        raise Problem(422, "an offset is a number from 0 on", code=422)
    return offset


def _require_assigned(instance: Instance, wanted: Any) -> None:
    assigned = set(instance.consumer.assignment())
    for partition in wanted:
        if partition not in assigned:
            raise _illegal(f"No current assignment for partition {partition}")
