"""Records that name their schema in a header, on topics that validate schemas."""

import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from tests.unit.broker.schema_validation.validating_broker import (
    BARE,
    BY_GUID,
    GOOD,
    GUID,
    OTHER_GUID,
    UNKNOWN_GUID,
    Connect,
    Registry,
    errors,
    framed,
    headed,
    on_validating_broker,
    read,
    topic,
)
from tests.unit.broker.test_produce_and_fetch import produce


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
