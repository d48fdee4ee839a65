"""A broker that validates schemas with a registry that the test controls, and its records."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from odradek.protocol.compression import Codec
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.produce import PartitionProduceResponse
from odradek.protocol.records import BatchBuilder, Record, decode_records, split_batches
from odradek.protocol.types import Offset
from odradek.schemas.errors import RegistryFailed
from odradek.schemas.framing import SchemaId
from odradek.world.processes import Message
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]
AVRO_INT = '"int"'
GOOD = b"\0\0\0\0\7\x02"  # schema 7, the integer 1
OTHER_SUBJECT = b"\0\0\0\0\x08\x02"
UNKNOWN = b"\0\0\0\0\x09\x02"
PLAIN = b'{"a": 1}'
GUID = UUID("6a3a1f0e-38a5-4b4c-9c6e-0a1b2c3d4e5f").bytes  # of schema 7
OTHER_GUID = UUID("00000000-38a5-4b4c-9c6e-0a1b2c3d4e5f").bytes  # of schema 8
UNKNOWN_GUID = bytes(range(16))
BY_GUID = ("__value_schema_id", b"\1" + GUID)
# Of a record whose first field is null, in Avro: it looks like the frame of schema 0x02020202.
BARE = b"\0\2\2\2\2"


class Registry:
    """A registry with two schemas, that may be away."""

    def __init__(self) -> None:
        self.subjects = {7: {"t-value", "t-key", "com.shop.Click"}, 8: {"other-value"}}
        self.is_away = False
        self.ids: dict[SchemaId, int] = {GUID: 7, OTHER_GUID: 8}
        self.asked: list[SchemaId] = []

    def subjects_of(self, schema_id: SchemaId) -> frozenset[str]:
        self.asked.append(schema_id)
        if self.is_away:
            raise RegistryFailed("the registry cannot be reached")
        return frozenset(self.subjects.get(self._id(schema_id), ()))

    def _id(self, schema_id: SchemaId) -> int:
        return schema_id if isinstance(schema_id, int) else self.ids.get(schema_id, -1)

    def record_name(self, schema_id: SchemaId) -> str:
        return {7: "com.shop.Click"}.get(self._id(schema_id), "")

    def source(self, schema_id: SchemaId) -> Message:
        return {"kind": "AVRO", "text": AVRO_INT, "imports": []}


on_validating_broker = on_broker(confluent_schema_registry_url="http://registry:8081")


def framed(
    *values: bytes | None, key: bytes | None = b"k", codec: Codec = Codec.NONE, sequence: int = -1
) -> bytes:
    builder = BatchBuilder(codec)
    for number, value in enumerate(values):
        builder.append(key, value, [("h", b"1")], 1_700_000_000_000 + number)
    if sequence < 0:
        return builder.build()
    return builder.build(producer_id=1000, producer_epoch=0, base_sequence=sequence)


def headed(*records: tuple[bytes, Sequence[tuple[str, bytes | None]]]) -> bytes:
    """Returns a batch of records with values and headers."""
    builder = BatchBuilder(Codec.NONE)
    for value, headers in records:
        builder.append(b"k", value, headers, 1_700_000_000_000)
    return builder.build()


async def topic(client: Client, name: str = "t", **overrides: str) -> None:
    await client.create_topic(
        name, partitions=1, confluent_value_schema_validation="true", **overrides
    )


async def read(client: Client, name: str = "t") -> list[Record]:
    request = FetchRequest(
        topics=[
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=Offset(0), partition_max_bytes=1 << 20)
                ],
            )
        ]
    )
    data = (await client.ask(request, FetchResponse, version=12)).responses[0].partitions[0]
    assert data.error_code == 0
    assert isinstance(data.records, bytes | memoryview)
    return [
        record
        for position, _ in split_batches(data.records)
        for record in decode_records(data.records, position)
    ]


def errors(answer: PartitionProduceResponse) -> dict[int, str]:
    return {
        error.batch_index: error.batch_index_error_message or "" for error in answer.record_errors
    }
