"""Every API and version, both ways, against an independent implementation."""

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from odradek.protocol.apis import all_apis
from odradek.protocol.layout import Field, StructType
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.schema import Message
from tests.unit.protocol.oracle import (
    every_version,
    kio_bytes,
    kio_class_of,
    kio_decode,
    kio_value,
    messages,
    pairs,
    to_kio,
)

# Versions we have and kio does not: none since kio 0.6.5.
UNKNOWN_TO_KIO: set[tuple[str, int]] = set()

CASES = [
    pytest.param(message_class, api.key, version, id=f"{message_class.__name__}-v{version}")
    for api, version in every_version()
    for message_class in (api.request, api.response)
]

quick = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part) for part in parts)


def test_kio_knows_every_version_but_the_declared_ones() -> None:
    unknown = {
        (api.name, version)
        for api, version in every_version()
        if kio_class_of(api.request, api.key, version) is None
    }
    assert unknown == UNKNOWN_TO_KIO


@pytest.mark.parametrize(("message_class", "key", "version"), CASES)
def test_same_bytes_and_same_values(message_class: type[Message], key: int, version: int) -> None:
    kio_class = kio_class_of(message_class, key, version)
    assert kio_class is not None
    assert message_class.is_flexible(version) == kio_class.__flexible__

    @quick
    @given(messages(message_class, kio_class, version))
    def check(message: Message) -> None:
        content = joined(message.encode(version))
        theirs = to_kio(message, kio_class, version)
        assert content == kio_bytes(theirs)
        assert message_class.decode(content, version) == message
        assert message_class.decode(memoryview(content), version) == message
        assert kio_decode(kio_class, content) == theirs

    check()


@pytest.mark.parametrize(("message_class", "key", "version"), CASES)
def test_same_defaults(message_class: type[Message], key: int, version: int) -> None:
    def check(layout: StructType, kio_class: Any) -> None:
        ours = layout()
        for pair in pairs(layout, kio_class, version):
            if pair.kios.default is not dataclasses.MISSING:
                default = kio_value(getattr(ours, pair.ours.name), pair, version)
                assert default == pair.kios.default, pair.ours.name
            if isinstance(pair.ours.element, StructType):
                check(pair.ours.element, pair.struct)

    check(message_class, kio_class_of(message_class, key, version))


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    "message_class", [ConsumerProtocolSubscription, ConsumerProtocolAssignment]
)
def test_consumer_protocol(message_class: type[Message], version: int) -> None:
    from importlib import import_module

    stem = "subscription" if message_class is ConsumerProtocolSubscription else "assignment"
    module = import_module(f"kio.schema.consumer_protocol_{stem}.v{version}.data")
    kio_class = getattr(module, message_class.__name__)

    @quick
    @given(messages(message_class, kio_class, version))
    def check(message: Message) -> None:
        content = joined(message.encode(version))
        assert content == kio_bytes(to_kio(message, kio_class, version))
        assert message_class.decode(content, version) == message

    check()


@pytest.mark.parametrize("api", all_apis().values(), ids=lambda api: api.name)
def test_both_messages_have_the_key_and_the_versions_of_their_api(api: Any) -> None:
    for message_class in (api.request, api.response):
        assert message_class.api_key == api.key
        assert message_class.versions == (api.min_version, api.max_version)
        assert message_class.flexible_versions.first == api.flexible_from


@pytest.mark.parametrize("api", all_apis().values(), ids=lambda api: api.name)
def test_a_version_outside_the_range_is_refused(api: Any) -> None:
    from odradek.protocol.errors import MalformedMessage

    for version in (-1, api.min_version - 1, api.max_version + 1):
        with pytest.raises(MalformedMessage, match="versions"):
            api.request.decode(b"", version)
        with pytest.raises(MalformedMessage, match="versions"):
            api.response().encode(version)


def test_fields_lie_within_the_versions_of_their_message() -> None:
    def walk(fields: tuple[Field, ...], message: type[Message]) -> None:
        for field in fields:
            assert field.versions.first <= message.versions.last, field.name
            assert field.versions.last >= message.versions.first, field.name
            if isinstance(field.element, StructType):
                walk(field.element.fields, message)

    for api in all_apis().values():
        for message in (api.request, api.response):
            walk(message.fields, message)
