"""Produce to topics that validate schemas, with a registry that the test controls."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from odradek.broker.schema_validation import registered_ids, validation
from odradek.broker.schema_validation.registered_ids import RegisteredIds
from odradek.broker.schema_validation.rules import SideRule
from odradek.config.schema_validation_settings import TOPIC_NAME
from odradek.protocol.api_error import ApiError
from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.produce import PartitionProduceResponse
from odradek.protocol.records import BatchBuilder, Record, decode_records, split_batches
from odradek.protocol.types import Offset
from odradek.schemas.errors import RegistryFailed
from odradek.schemas.framing import SchemaId
from odradek.world.processes import Message
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.test_produce_and_fetch import produce

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


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr(validation, "AskedRegistry", lambda _: found)
    return found


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


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@on_validating_broker
async def test_records_of_a_registered_schema_are_taken(
    connect: Connect, registry: Registry, codec: Codec
) -> None:
    client = await connect()
    await topic(client)
    answer = await produce(client, framed(GOOD, None, GOOD, codec=codec))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert [record.value for record in await read(client)] == [GOOD, None, GOOD]
    await produce(client, framed(GOOD))
    assert registry.asked == [7]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (PLAIN, "begins with 7b 22 61 22 3a, not with 00 and the id of a schema"),
        (b"", "begins with nothing"),
        (b"\0\0\0", "begins with 00 00 00, not"),
        (UNKNOWN, "the schema registry has no schema 9"),
        (OTHER_SUBJECT, "schema 8 of the value is not registered under subject t-value"),
    ],
)
@on_validating_broker
async def test_a_wrong_record_refuses_its_batch_by_its_index(
    connect: Connect, registry: Registry, bad: bytes, reason: str
) -> None:
    client = await connect()
    await topic(client)
    answer = await produce(client, framed(GOOD, bad, GOOD))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert list(errors(answer)) == [1]
    assert reason in errors(answer)[1]
    assert reason in (answer.error_message or "")
    assert await read(client) == []
    assert (await produce(client, framed(GOOD))).base_offset == 0


@on_validating_broker
async def test_a_large_batch_names_its_first_hundred_faults(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client)
    answer = await produce(client, framed(*[GOOD] * 5000, *[PLAIN] * 200))
    assert list(errors(answer)) == list(range(5000, 5100))


@on_validating_broker
async def test_keys_are_checked_by_their_own_rule(connect: Connect, registry: Registry) -> None:
    client = await connect()
    await client.create_topic("t", confluent_key_schema_validation="true")
    assert (await produce(client, framed(PLAIN, key=GOOD))).error_code == 0
    assert (await produce(client, framed(PLAIN, key=None))).error_code == 0
    refused = await produce(client, framed(PLAIN, key=b"k"))
    assert errors(refused) == {0: "the key begins with 6b, not with 00 and the id of a schema"}


@on_validating_broker
async def test_a_subject_may_be_named_by_the_record(connect: Connect, registry: Registry) -> None:
    client = await connect()
    name = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
    await topic(client, confluent_value_subject_name_strategy=name)
    assert (await produce(client, framed(GOOD))).error_code == 0
    registry.subjects[7] = {"t-value"}
    both = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    await alter(client, **{"confluent.value.subject.name.strategy": both})
    refused = await produce(client, framed(GOOD))
    assert "is not registered under subject t-com.shop.Click" in errors(refused)[0]


@on_validating_broker
async def test_without_the_registry_known_ids_pass_and_others_are_to_be_tried_again(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client)
    registry.is_away = True
    refused = await produce(client, framed(GOOD))
    assert ErrorCode(refused.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert ErrorCode(refused.error_code).retriable
    assert "schema 7 cannot be checked now" in (refused.error_message or "")
    registry.is_away = False
    assert (await produce(client, framed(GOOD))).error_code == 0
    registry.is_away = True
    await asyncio.sleep(400)  # Virtual: the answer is an old one now.
    assert (await produce(client, framed(GOOD))).error_code == 0
    refused = await produce(client, framed(UNKNOWN))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


@on_validating_broker
async def test_a_schema_that_was_registered_after_a_refusal_is_found(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client)
    assert (await produce(client, framed(UNKNOWN))).error_code == ErrorCode.INVALID_RECORD
    registry.subjects[9] = {"t-value"}
    await asyncio.sleep(2)  # Virtual.
    assert (await produce(client, framed(UNKNOWN))).error_code == 0


@on_validating_broker
async def test_wrong_records_are_diverted_with_their_reason(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_action="divert")
    answer = await produce(client, framed(GOOD, PLAIN, GOOD, UNKNOWN))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert (await produce(client, framed(GOOD))).base_offset == 4
    assert [record.offset for record in await read(client)] == [0, 2, 4]
    letters = await read(client, "t-dead-letters")
    assert [(letter.key, letter.value) for letter in letters] == [(b"k", PLAIN), (b"k", UNKNOWN)]
    headers = dict(letters[1].headers)
    assert headers == {
        "h": b"1",
        "__odradek.errors.topic": b"t",
        "__odradek.errors.partition": b"0",
        "__odradek.errors.reason": b"the schema registry has no schema 9",
    }
    assert letters[0].timestamp_ms == 1_700_000_000_001


@on_validating_broker
async def test_a_retry_of_a_diverted_batch_does_not_double_the_topic(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_action="divert")
    for _ in range(3):
        answer = await produce(client, framed(PLAIN, GOOD, PLAIN, sequence=0))
        assert (answer.error_code, answer.base_offset) == (0, 0)
    whole = await produce(client, framed(PLAIN, sequence=3))
    assert (whole.error_code, whole.base_offset) == (0, 3)
    after = await produce(client, framed(GOOD, sequence=4))
    assert (after.error_code, after.base_offset) == (0, 4)
    assert [record.offset for record in await read(client)] == [1, 4]


@on_validating_broker
async def test_records_that_cannot_be_diverted_are_refused(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(
        client,
        odradek_schema_validation_action="divert",
        odradek_schema_validation_dead_letter_topic="letters",
    )
    await client.create_topic("letters", max_message_bytes="100")
    answer = await produce(client, framed(GOOD, b"x" * 500))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "cannot be diverted to letters: MESSAGE_TOO_LARGE" in (answer.error_message or "")
    assert await read(client) == []


@on_validating_broker
async def test_a_batch_with_very_many_unknown_ids_is_refused_and_not_diverted(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_action="divert")
    unknown = [b"\0" + number.to_bytes(4, "big") for number in range(1000, 1500)]
    answer = await produce(client, framed(*unknown))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert len(registry.asked) == 101
    assert await read(client) == []


@on_validating_broker
async def test_content_is_decoded_if_the_topic_asks_for_it(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_content="true")
    assert (await produce(client, framed(GOOD, None))).error_code == 0
    answer = await produce(client, framed(GOOD, GOOD + b"more", GOOD[:5]))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    found = errors(answer)
    assert list(found) == [1, 2]
    assert found[1].startswith("the value does not fit schema 7: ")


@on_validating_broker
async def test_a_schema_may_be_named_in_a_header(connect: Connect, registry: Registry) -> None:
    client = await connect()
    await topic(client)
    by_id = ("__value_schema_id", b"\0\0\0\0\7")
    batch = headed(
        (b"\2", [BY_GUID]), (GOOD, []), (b"\4", [("other", b"1"), by_id]), (b"", [BY_GUID])
    )
    assert (await produce(client, batch)).error_code == 0
    assert (await produce(client, batch)).error_code == 0
    assert registry.asked == [7, GUID]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"\1" + UNKNOWN_GUID, "no schema 00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (b"\1" + OTHER_GUID, "schema 00000000-38a5-4b4c-9c6e-0a1b2c3d4e5f of the value is not"),
        (
            b"\1" + GUID[:9],
            "header __value_schema_id is 01 6a 3a 1f 0e 38 a5 4b 4c 9c: it names no",
        ),
        (b"", "header __value_schema_id is empty: it names no schema"),
        (b"\0\0\0\0\x09", "the schema registry has no schema 9"),
        (None, "the value begins with 02, not with 00"),
    ],
)
@on_validating_broker
async def test_a_header_that_names_no_registered_schema_refuses_its_record(
    connect: Connect, registry: Registry, header: bytes | None, reason: str
) -> None:
    client = await connect()
    await topic(client)
    name = "__value_schema_id"
    answer = await produce(client, headed((b"\2", [BY_GUID]), (b"\2", [(name, header)])))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert list(errors(answer)) == [1]
    assert reason in errors(answer)[1]
    assert await read(client) == []


@on_validating_broker
async def test_a_right_id_in_the_value_does_not_hide_a_wrong_one_in_the_header(
    connect: Connect, registry: Registry
) -> None:
    """Readers look at the header first."""
    client = await connect()
    await topic(client)
    assert (await produce(client, framed(GOOD))).error_code == 0
    wrong = ("__value_schema_id", b"\1" + OTHER_GUID)
    answer = await produce(client, headed((GOOD, []), (GOOD, [wrong])))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert list(errors(answer)) == [1]
    assert len(await read(client)) == 1


@on_validating_broker
async def test_the_header_of_a_key_does_not_stand_for_its_value(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, confluent_key_schema_validation="true")
    of_key = ("__key_schema_id", b"\1" + GUID)
    assert (await produce(client, headed((b"\2", [of_key, BY_GUID])))).error_code == 0
    refused = await produce(client, headed((b"\2", [of_key])))
    assert errors(refused) == {0: "the value begins with 02, not with 00 and the id of a schema"}
    refused = await produce(client, headed((b"\2", [BY_GUID])))
    assert errors(refused) == {0: "the key begins with 6b, not with 00 and the id of a schema"}


@on_validating_broker
async def test_payloads_that_look_like_unknown_ids_do_not_ask_for_them(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client)
    bare = [BARE[:1] + number.to_bytes(4, "big") for number in range(1 << 20, (1 << 20) + 3000)]
    batch = headed(*((value, [BY_GUID]) for value in bare))
    assert (await produce(client, batch)).error_code == 0
    assert registry.asked == [GUID]


@on_validating_broker
async def test_without_the_registry_known_schemas_of_headers_pass(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client)
    assert (await produce(client, headed((BARE, [BY_GUID])))).error_code == 0
    registry.is_away = True
    await asyncio.sleep(400)  # Virtual: the answer is an old one now.
    assert (await produce(client, headed((BARE, [BY_GUID])))).error_code == 0
    other = ("__value_schema_id", b"\1" + OTHER_GUID)
    refused = await produce(client, headed((BARE, [other])))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


@on_validating_broker
async def test_records_with_wrong_headers_are_diverted(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_action="divert")
    wrong = ("__value_schema_id", b"\1" + UNKNOWN_GUID)
    answer = await produce(client, headed((b"\2", [BY_GUID]), (b"\4", [wrong])))
    assert answer.error_code == 0
    assert [record.value for record in await read(client)] == [b"\2"]
    (letter,) = await read(client, "t-dead-letters")
    assert letter.value == b"\4"
    assert dict(letter.headers)["__value_schema_id"] == wrong[1]


@on_validating_broker
async def test_content_is_decoded_by_the_schema_of_a_header(
    connect: Connect, registry: Registry
) -> None:
    client = await connect()
    await topic(client, odradek_schema_validation_content="true")
    good = headed((b"\2", [BY_GUID]), (GOOD, []))
    assert (await produce(client, good)).error_code == 0
    # The header of the last one counts, although its value begins like a frame.
    answer = await produce(client, headed((b"\2", [BY_GUID]), (b"", [BY_GUID]), (GOOD, [BY_GUID])))
    found = errors(answer)
    assert list(found) == [1, 2]
    name = "6a3a1f0e-38a5-4b4c-9c6e-0a1b2c3d4e5f"
    assert all(
        text.startswith(f"the value does not fit schema {name}: ") for text in found.values()
    )


@on_validating_broker
async def test_a_batch_that_waits_for_the_registry_is_not_overtaken(
    connect: Connect, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await connect(), await connect()
    await topic(client)
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[None] = loop.create_future()
    answered: asyncio.Future[None] = loop.create_future()
    original = RegisteredIds.refusal

    async def slow(self: RegisteredIds, *arguments: object) -> str | None:
        if not asked.done():
            asked.set_result(None)
            await answered
        return await original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RegisteredIds, "refusal", slow)
    first = asyncio.ensure_future(produce(client, framed(GOOD)))
    await asked
    second = asyncio.ensure_future(produce(client, framed(GOOD, GOOD)))
    await topic(other, "other")  # Another connection is served meanwhile.
    answered.set_result(None)
    assert [(await first).base_offset, (await second).base_offset] == [0, 1]


@on_broker()
async def test_a_broker_without_a_registry_refuses_the_setting(connect: Connect) -> None:
    client = await connect()
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name="confluent.value.schema.validation", value="true")
                ],
            )
        ]
    )
    created = (await client.ask(request, CreateTopicsResponse)).topics[0]
    assert created.error_code == ErrorCode.INVALID_CONFIG
    assert "need confluent.schema.registry.url" in (created.error_message or "")
    await client.create_topic("t")
    assert await alter(client, **{"confluent.key.schema.validation": "true"}) == (
        ErrorCode.INVALID_CONFIG
    )


async def alter(client: Client, **settings: str) -> int:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[
                    AlterableConfig(name=name, config_operation=0, value=value)
                    for name, value in settings.items()
                ],
            )
        ]
    )
    return (await client.ask(request, IncrementalAlterConfigsResponse)).responses[0].error_code


@pytest.mark.parametrize("letters", [("t",), ("u", "t")])
@on_validating_broker
async def test_dead_letters_do_not_go_round_in_circles(
    connect: Connect, registry: Registry, letters: tuple[str, ...]
) -> None:
    """Each of them would be a wrong record of the next topic."""
    client = await connect()
    for name, following in zip(("t", *letters), letters, strict=False):
        await topic(
            client,
            name,
            odradek_schema_validation_action="divert",
            odradek_schema_validation_dead_letter_topic=following,
        )
    answer = await produce(client, framed(PLAIN))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "it validates schemas itself" in (answer.error_message or "")


async def test_questions_do_not_pile_up_before_a_registry_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients choose the ids, and a question waits longer than the request that has asked it."""

    class Stuck:
        async def run_blocking(self, _: object) -> None:
            await asyncio.Future()

    monkeypatch.setattr(registered_ids, "_MAX_WAITING", 10)
    settings = SimpleNamespace(
        broker=SimpleNamespace(
            odradek_schema_registry_timeout_ms=1, odradek_schema_registry_cache_ms=0
        )
    )
    world = SimpleNamespace(workers=Stuck(), clock=SimpleNamespace(monotonic_s=lambda: 0.0))
    ids = RegisteredIds(Registry(), cast("Any", settings), cast("Any", world))
    before = len(asyncio.all_tasks())
    rule = SideRule("value", "t", TOPIC_NAME)
    for number in range(30):
        with pytest.raises(ApiError, match="cannot be checked now"):
            await ids.refusal(rule, number)
    assert len(asyncio.all_tasks()) - before == 10
    ids.close()
