"""Version 2: brokers, topics and partitions are described, and records are produced."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.cluster_view import NO_BROKER, Partition, Topic
from odradek.protocol.errors import KafkaError, UnknownTopic
from odradek.protocol.types import TopicPartition
from odradek.rest.formats import NOT_SERIALIZABLE, REGISTRY_AWAY, is_null, null, serialized
from odradek.rest.links import Json
from odradek.rest.offset_ranges import offset_range
from odradek.rest.producing import Outgoing, Sending, require_topic_name, send
from odradek.rest.schema_formats import CallerFormats, SchemaFormats, SchemaOf
from odradek.rest.v2.media import (
    ANSWERS,
    FORMAT_OF,
    NOT_DECODED,
    OF_FORMAT,
    SCHEMA_KIND,
    UNSAID,
    WITH_SCHEMA,
)
from odradek.services.client_pool import CallerClients
from odradek.services.kafka_problems import (
    FORBIDDEN,
    PARTITION_NOT_FOUND,
    TOPIC_NOT_FOUND,
    UNAUTHENTICATED,
)
from odradek.services.running import Service
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint
from odradek.web.media import given_type
from odradek.web.problems import Problem, negotiated_response

_FOUND: Final = {200: "It is there.", 404: "There is no such topic or partition.", 500: "An error."}
_PRODUCED: Final = {
    200: "Where each record is, or its error.", 404: "There is no such topic or partition.",
    408: "40801: a schema could not be registered or read.", 422: "A record is wrong.",
    500: "An error of the brokers.",
}  # fmt: skip
_KEY_SCHEMA_MISSING: Final = 42201
_VALUE_SCHEMA_MISSING: Final = 42202
_REGISTRY_CODES: Final = frozenset({NOT_SERIALIZABLE, REGISTRY_AWAY})


class Record(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw = msgspec.field(default_factory=null)
    value: msgspec.Raw = msgspec.field(default_factory=null)
    partition: int | None = None


class Produce(msgspec.Struct, forbid_unknown_fields=True):
    """Records; with schemas as text or by id for formats that have them."""

    records: list[Record]
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class Topics:
    """The endpoints of version 2 that have no consumer instance."""

    def __init__(self, service: Service, formats: SchemaFormats) -> None:
        self._service = service
        self._formats = formats

    def endpoints(self) -> list[Endpoint]:
        def get(path: str, handler: Any, summary: str) -> Endpoint:
            return Endpoint("GET", path, handler, summary, produces=ANSWERS, responses=_FOUND)

        def produce(path: str, summary: str) -> Endpoint:
            return Endpoint(
                "POST", path, self._produce, summary, changes=True, body=Produce,
                media_types=(*OF_FORMAT.values(), *ANSWERS, UNSAID), produces=ANSWERS,
                responses=_PRODUCED,
            )  # fmt: skip

        return [
            get("/", self._root, "Nothing: the proxy is there."),
            Endpoint("POST", "/", self._root, "Nothing.", media_types=ANSWERS, produces=ANSWERS),
            get("/brokers", self._brokers, "The ids of the brokers."),
            get("/topics", self._topics, "The names of topics."),
            get("/topics/{topic}", self._topic, "A topic with its settings and partitions."),
            produce("/topics/{topic}", "Produces records to a topic."),
            get("/topics/{topic}/partitions", self._partitions, "The partitions of a topic."),
            get("/topics/{topic}/partitions/{partition:int}", self._partition, "A partition."),
            produce(
                "/topics/{topic}/partitions/{partition:int}", "Produces records to a partition."
            ),
            get(
                "/topics/{topic}/partitions/{partition:int}/offsets", self._offsets,
                "The first and the next offset of a partition.",
            ),
        ]  # fmt: skip

    async def _root(self, request: Request) -> Response:
        return negotiated_response(request, {})

    async def _brokers(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            brokers = (await clients.admin.describe_cluster()).brokers
            return negotiated_response(request, {"brokers": [broker.id for broker in brokers]})

    async def _topics(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            topics = await clients.admin.list_topics(include_internal=True)
            return negotiated_response(request, list(topics))

    async def _topic(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            topic = await described(clients, request.path_params["topic"])
            resource = ConfigResource(ConfigType.TOPIC, topic.name)
            configs = (await clients.admin.describe_configs([resource]))[resource]
            if isinstance(configs, KafkaError):
                raise configs
            answer = {
                "name": topic.name,
                "configs": {name: entry.value for name, entry in configs.items()},
                "partitions": [
                    _partition_json(partition) for partition in topic.partitions.values()
                ],
            }
            return negotiated_response(request, answer)

    async def _partitions(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            topic = await described(clients, request.path_params["topic"])
            answer = [_partition_json(partition) for partition in topic.partitions.values()]
            return negotiated_response(request, answer)

    async def _partition(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            _, partition = await _described_partition(clients, request)
            return negotiated_response(request, _partition_json(partition))

    async def _offsets(self, request: Request) -> Response:
        async with self._service.clients(request) as clients:
            topic, partition = await _described_partition(clients, request)
            key = TopicPartition(topic.name, partition.index)
            first, end = await offset_range(clients.admin, key)
            answer = {"beginning_offset": first, "end_offset": end}
            return negotiated_response(request, answer)

    # Producing

    async def _produce(self, request: Request) -> Response:
        topic = require_topic_name(request.path_params["topic"])
        partition: int | None = request.path_params.get("partition")
        given = given_type(request.headers.get("content-type", ""))
        # Without a format of its own, a body is binary, as with Confluent's proxy.
        format_ = FORMAT_OF.get(given, "binary")
        produce = await read_body(request, Produce)
        if not produce.records:
            raise Problem(422, "records: there are none")
        async with self._service.clients(request) as clients:
            formats = self._formats.of(clients)
            outgoing, ids = await _outgoing(formats, topic, partition, format_, produce)
            sent = [await send(clients.producer, topic, record) for record in outgoing]
            offsets = [await _offset_json(one) for one in sent]
            _raise_if_missing(topic, offsets)
            answer = {
                "offsets": offsets,
                "key_schema_id": ids[0],
                "value_schema_id": ids[1],
            }
            response = negotiated_response(request, answer)
            response.status_code = _status(offsets)
            return response


async def _outgoing(
    formats: CallerFormats, topic: str, partition: int | None, format_: str, produce: Produce
) -> tuple[list[Outgoing], tuple[int | None, int | None]]:
    """Returns the records with their bytes, and the ids of the schemas. All are checked before
    the first one is sent."""
    if format_ not in WITH_SCHEMA:
        kind = "JSON" if format_ == "json" else "BINARY"
        plain = [
            Outgoing(
                serialized(kind, record.key),
                serialized(kind, record.value),
                _chosen(record.partition, partition),
            )
            for record in produce.records
        ]
        return plain, (None, None)
    keys = _Schema(produce.key_schema, produce.key_schema_id, _KEY_SCHEMA_MISSING, "key")
    values = _Schema(produce.value_schema, produce.value_schema_id, _VALUE_SCHEMA_MISSING, "value")
    records = []
    for record in produce.records:
        key = await keys.write(formats, topic, format_, record.key)
        value = await values.write(formats, topic, format_, record.value)
        records.append(Outgoing(key, value, _chosen(record.partition, partition)))
    return records, (keys.found_id, values.found_id)


class _Schema:
    """The schema of all keys or all values of a request."""

    def __init__(self, text: str | None, id_: int | None, missing: int, word: str) -> None:
        self._text = text
        self._id = id_
        self._missing = missing
        self._word = word
        self.found_id: int | None = None

    async def write(
        self, formats: CallerFormats, topic: str, format_: str, data: msgspec.Raw
    ) -> bytes | None:
        if is_null(data) and self._text is None and self._id is None:
            return None
        if self._text is None and self._id is None:
            word = self._word
            raise Problem(
                422, f"Request includes {word}s but does not include {word} schema",
                code=self._missing,
            )  # fmt: skip
        # An id was registered before, or comes from the first record with this text.
        known = self._id if self._text is None else self.found_id
        wanted = SchemaOf(
            SCHEMA_KIND[format_], schema_id=known, text=self._text if known is None else None
        )
        try:
            written = await formats.write(topic, wanted, data, is_key=self._word == "key")
        except Problem as problem:
            if problem.code not in _REGISTRY_CODES:
                raise
            words = f"Schema registration or lookup failed: {problem.message}"
            raise Problem(408, words, code=NOT_DECODED) from None
        self.found_id = written.described.get("schema_id", known)
        return written.content


async def described(clients: CallerClients, name: str) -> Topic:
    """Returns a topic, or raises 404 with the code of version 2."""
    found = (await clients.admin.describe_topics([require_topic_name(name)]))[name]
    if isinstance(found, UnknownTopic):
        raise Problem(404, "Topic not found.", code=TOPIC_NOT_FOUND)
    if isinstance(found, KafkaError):
        raise found
    return found


async def _described_partition(clients: CallerClients, request: Request) -> tuple[Topic, Partition]:
    topic = await described(clients, request.path_params["topic"])
    partition = topic.partitions.get(request.path_params["partition"])
    if partition is None:
        raise Problem(404, "Partition not found.", code=PARTITION_NOT_FOUND)
    return topic, partition


def _partition_json(partition: Partition) -> Json:
    return {
        "partition": partition.index,
        "leader": None if partition.leader == NO_BROKER else partition.leader,
        "replicas": [
            {
                "broker": broker,
                "leader": broker == partition.leader,
                "in_sync": broker in partition.in_sync,
            }
            for broker in partition.replicas
        ],
    }


def _chosen(of_record: int | None, of_path: int | None) -> int | None:
    chosen = of_path if of_record is None else of_record
    if chosen is not None and not 0 <= chosen < 2**31:
        raise Problem(404, "Partition not found.", code=PARTITION_NOT_FOUND)
    return chosen


async def _offset_json(sending: Sending) -> Json:
    outcome = await sending.outcome()
    if isinstance(outcome, Problem):
        return {
            "partition": None, "offset": None, "error_code": outcome.code,
            "error": outcome.message,
        }  # fmt: skip
    return {
        "partition": outcome.partition, "offset": outcome.offset, "error_code": None,
        "error": None,
    }  # fmt: skip


def _raise_if_missing(topic: str, offsets: list[Json]) -> None:
    """Raises 404 if the topic or the partition of all records is missing."""
    codes = {offset["error_code"] for offset in offsets}
    if codes == {PARTITION_NOT_FOUND}:
        raise Problem(404, "Partition not found.", code=PARTITION_NOT_FOUND)
    if codes == {40403}:
        raise Problem(404, f"Topic not found: {topic}.", code=TOPIC_NOT_FOUND)


def _status(offsets: list[Json]) -> int:
    """Returns the status: the first error that is about the caller decides."""
    for offset in offsets:
        if offset["error_code"] == UNAUTHENTICATED:
            return 401
        if offset["error_code"] == FORBIDDEN:
            return 403
    return 200
