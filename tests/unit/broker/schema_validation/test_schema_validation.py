"""Produce to topics that validate schemas, with a registry that the test controls."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.schema_validation import registered_ids
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
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.schema_validation.validating_broker import (
    GOOD,
    OTHER_SUBJECT,
    PLAIN,
    UNKNOWN,
    Connect,
    Registry,
    errors,
    framed,
    on_validating_broker,
    read,
    topic,
)
from tests.unit.broker.test_produce_and_fetch import produce


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
