"""Whatever bytes come: a value, or MalformedMessage, and memory bounded by the input."""

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.protocol.apis import all_apis
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.layout import Field, StructType
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.protocol.wire import unsigned_varint

CLASSES = [
    pytest.param(message_class, id=message_class.__name__)
    for api in all_apis().values()
    for message_class in (api.request, api.response)
]

quick = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def versions_of(message_class: type[Message]) -> range:
    return range(message_class.versions.first, message_class.versions.last + 1)


def filled(layout: StructType, version: int) -> Any:
    """A message with something in every field that the version has."""
    values = {f.name: _something(f, version) for f in layout.fields if version in f.versions}
    return layout(**values)


def _something(field: Field, version: int) -> object:
    element = field.element
    if field.kind == "array":
        return [_one(element or "", version), _one(element or "", version)]
    return _one(element if isinstance(element, StructType) else field.kind, version)


def _one(kind: str | StructType, version: int) -> object:
    if isinstance(kind, StructType):
        return filled(kind, version)
    if kind == "string":
        return "word"
    if kind in ("bytes", "records"):
        return b"bytes"
    return b"0123456789abcdef" if kind == "uuid" else 1


def encoded(message: Message, version: int) -> bytes:
    parts = message.encode(version)
    return b"".join(part for part in parts if isinstance(part, bytes | memoryview))


def decode_or_refuse(message_class: type[Message], content: bytes, version: int) -> None:
    """What decodes must also encode, and from then on stay the same."""
    try:
        message = message_class.decode(content, version)
    except MalformedMessage:
        return
    again = encoded(message, version)
    assert encoded(message_class.decode(again, version), version) == again


@pytest.mark.parametrize("message_class", CLASSES)
def test_every_truncation_is_malformed(message_class: type[Message]) -> None:
    for version in versions_of(message_class):
        content = encoded(filled(message_class, version), version)
        message_class.decode(content, version)
        for length in range(len(content)):
            with pytest.raises(MalformedMessage):
                message_class.decode(memoryview(content)[:length], version)


@pytest.mark.parametrize("message_class", CLASSES)
def test_mutated_messages_decode_or_are_malformed(message_class: type[Message]) -> None:
    samples = {v: encoded(filled(message_class, v), v) for v in versions_of(message_class)}
    chance = random.Random(message_class.__name__)
    for version, sample in samples.items():
        for _ in range(150):
            content = bytearray(sample)
            for _ in range(chance.choice((1, 1, 2, 5))):
                if not content:
                    break
                at = chance.randrange(len(content))
                action = chance.randrange(4)
                if action == 0:
                    content[at] = chance.randrange(256)
                elif action == 1:
                    content[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
                elif action == 2:
                    del content[at : at + chance.randrange(1, 9)]
                else:
                    content[at:at] = chance.randbytes(chance.randrange(1, 9))
            decode_or_refuse(message_class, bytes(content), version)


@pytest.mark.parametrize("message_class", CLASSES)
def test_random_bytes_decode_or_are_malformed(message_class: type[Message]) -> None:
    @quick
    @given(st.sampled_from(versions_of(message_class)), st.binary(max_size=64))
    def check(version: int, content: bytes) -> None:
        decode_or_refuse(message_class, content, version)

    check()


@pytest.mark.parametrize("message_class", CLASSES)
def test_memory_is_bounded_by_the_input(message_class: type[Message]) -> None:
    """Lengths that claim everything, over bytes that make for the most and smallest elements."""
    size = 4096
    decode_or_refuse(message_class, b"", message_class.versions.last)
    for version in {message_class.versions.first, message_class.versions.last}:
        message_class._compile_decoder(version)
        for filler in (b"\0", b"\x01", b"\x02", b"\x7f", b"\xff", b"\x0f\xff", b"\0\0\x0f\x00"):
            content = (filler * size)[:size]
            tracemalloc.start()
            try:
                decode_or_refuse(message_class, content, version)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 150 * size, (version, filler)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0\0\0\0\0\0\0" + unsigned_varint(200_001) + b"\x01\x01\0" * 200_000, "elements"),
        (
            b"\0\0\0\0\0\0\0\x02\x01" + unsigned_varint(200_001) + b"\0\0\0\0\0\0" * 200_000,
            "elements",
        ),
        (b"\0\0\0\0\0\0\0\x01" + unsigned_varint(200_000) + b"\x09\0" * 200_000, "elements"),
    ],
    ids=["topics", "partitions", "tags"],
)
def test_a_request_cannot_keep_the_broker_busy(content: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        ProduceRequest.decode(content, 9)


def test_elements_are_counted_over_the_whole_request() -> None:
    topic = b"\x01" + unsigned_varint(1001) + b"\0\0\0\0\0\0" * 1000 + b"\0"
    for topics, fits in ((49, True), (50, False)):
        content = b"\0\0\0\0\0\0\0" + bytes([topics + 1]) + topic * topics + b"\0"
        if fits:
            assert len(ProduceRequest.decode(content, 9).topic_data) == topics
        else:
            with pytest.raises(MalformedMessage, match="elements"):
                ProduceRequest.decode(content, 9)
