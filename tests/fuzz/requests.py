"""Valid requests, made from the declarations of the messages.

Every field that a version has gets a value: by its name where a broker would look at it (the
topics that exist, a timeout that ends), at random elsewhere. Nothing here, unless mutated,
makes topics, changes settings or deletes anything, so that a long run ends where it began.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from odradek.protocol.apis import all_apis
from odradek.protocol.headers import encode_request
from odradek.protocol.layout import Field, StructType
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.types import NO_TOPIC_ID
from tests.fuzz.batches import ordinary_batch

EXTREMES = [0, 1, -1, -2, 127, -128, 255, 32767, -32768, (1 << 31) - 1, -(1 << 31), 1 << 20]
LIMITS = {
    "int8": 1 << 7,
    "int16": 1 << 15,
    "int32": 1 << 31,
    "int64": 1 << 63,
    "uint16": 1 << 16,
    "uint32": 1 << 32,
}
CONFIG_NAMES = ["retention.ms", "cleanup.policy", "max.message.bytes", "compression.type"]
GONE = "fuzz-gone"


class Surroundings(NamedTuple):
    """What exists at the broker, for requests to name; versions are those we know as well."""

    versions: dict[int, tuple[int, int]]
    topics: list[str]
    topic_ids: list[bytes]


class RequestMaker:
    def __init__(self, random: Random, surroundings: Surroundings) -> None:
        self._random = random
        self._surroundings = surroundings
        self._api = ApiVersionsRequest.api_key
        self.is_extreme = False
        self.records: bytes | None = None

    def frame(self, key: int | None = None) -> bytes:
        """A whole frame with its size; `is_extreme` makes some of its numbers unlikely."""
        random = self._random
        if key is None:
            key = random.choice(list(self._surroundings.versions))
        version = random.randint(*self._surroundings.versions[key])
        self._api = key
        request = self._struct(all_apis()[key].request, version)
        correlation_id = random.randrange(1 << 31)
        client_id = random.choice([None, "", "fuzz", "fuzz-ü"])
        parts = encode_request(request, version, correlation_id, client_id)  # type: ignore[arg-type]
        return b"".join(parts)  # type: ignore[arg-type]

    def _struct(self, layout: StructType, version: int) -> object:
        values = {
            field.name: self._value(field, version)
            for field in layout.fields
            if version in field.versions or version in field.tagged
        }
        return layout(**values)

    def _value(self, field: Field, version: int) -> object:
        random = self._random
        if version in field.nullable and random.random() < 0.15:
            return None
        if field.kind == "array":
            return [self._element(field, version) for _ in range(random.choice([0, 1, 1, 1, 2]))]
        if field.kind == "struct":
            assert isinstance(field.element, StructType)
            return self._struct(field.element, version)
        return self._plain(field.kind, field.name)

    def _element(self, field: Field, version: int) -> object:
        if isinstance(field.element, StructType):
            return self._struct(field.element, version)
        return self._plain(str(field.element), field.name)

    def _plain(self, kind: str, name: str) -> object:
        if kind in LIMITS:
            return self._number(kind, name)
        makers: dict[str, Callable[[], object]] = {
            "string": lambda: self._string(name),
            "boolean": lambda: self._boolean(name),
            "uuid": self._uuid,
            "records": lambda: self.records or ordinary_batch(self._random),
            "float64": lambda: self._random.choice([0.0, -1.5, 1e9]),
            "bytes": lambda: self._random.randbytes(self._random.randrange(20)),
        }
        return makers[kind]()

    def _number(self, kind: str, name: str) -> int:
        random, limit = self._random, LIMITS[kind]
        known = NUMBERS.get(name)
        if self.is_extreme and random.random() < 0.3:
            number = random.choice([*EXTREMES, limit - 1, -limit])
        elif known is not None:
            number = random.choice(known)
        else:
            number = random.choice([0, 0, 1, -1, 2, random.randrange(limit)])
        # Into the range of its width, as two's complement would put it.
        if kind.startswith("u"):
            return number % limit
        return (number + limit) % (2 * limit) - limit

    def _string(self, name: str) -> str:
        random = self._random
        if self._api == DeleteTopicsRequest.api_key:
            return GONE
        if name in ("topic", "topic_name", "name", "resource_name", "topics", "topic_names"):
            if "configs" in name or random.random() < 0.2:
                return random.choice([*CONFIG_NAMES, GONE, "", "a" * 300, "../../etc", "ü\0/"])
            return random.choice(self._surroundings.topics)
        return random.choice(["", "1", "fuzz", "-1", "compact", "x" * 200])

    def _boolean(self, name: str) -> bool:
        if name == "validate_only":
            return True
        if name == "allow_auto_topic_creation":
            return False
        return self._random.random() < 0.5

    def _uuid(self) -> bytes:
        random = self._random
        if self._api != DeleteTopicsRequest.api_key and random.random() < 0.7:
            return random.choice(self._surroundings.topic_ids)
        return random.choice([bytes(NO_TOPIC_ID), random.randbytes(16)])


# What these fields may hold in a request that a client would send.
NUMBERS: dict[str, list[int]] = {
    "acks": [1, 1, -1, 0],
    "base_sequence": [-1, 0],
    "count": [1, 3],
    "current_leader_epoch": [-1, 0, 1],
    "fetch_offset": [0, 0, 1, 5, -1],
    "forgotten_topics_data": [0],
    "index": [0, 1, 2],
    "isolation_level": [0, 1],
    "last_fetched_epoch": [-1, 0],
    "leader_epoch": [-1, 0, 1],
    "limit": [1, 100],
    "log_start_offset": [-1, 0],
    "max_bytes": [1, 1000, 1 << 20],
    "max_wait_ms": [0, 0, 1, 10],
    "max_num_offsets": [1],
    "min_bytes": [0, 1],
    "num_partitions": [-1, 1, 3],
    "offset": [-1, 0, 1],
    "operation": [1, 3, 4],
    "partition": [0, 1, 2],
    "pattern_type_filter": [1, 3],
    "permission_type": [1, 3],
    "partition_index": [0, 1, 2],
    "partition_indexes": [0, 1, 2],
    "partition_max_bytes": [1, 1000, 1 << 20],
    "partitions": [0, 1, 2],
    "replica_id": [-1],
    "replication_factor": [-1, 1],
    "resource_pattern_type": [3],
    "resource_type": [2, 4],
    "resource_type_filter": [1, 2],
    "response_partition_limit": [1, 100],
    "session_epoch": [-1, 0, 0, 1],
    "session_id": [0],
    "timeout_ms": [0, 1, 50],
    "timestamp": [-1, -2, -3, 0, 1_700_000_000_000],
    "transaction_timeout_ms": [1000, 60_000],
}
