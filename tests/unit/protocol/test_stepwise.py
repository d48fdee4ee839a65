"""Stepwise codecs say the same as the others, and stop at every element."""

from collections.abc import Generator
from typing import TypeVar

import pytest

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import Part

T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> tuple[int, T]:
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def joined(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes))


RESPONSE = MetadataResponse(
    topics=[
        MetadataResponseTopic(
            name=f"t{number}",
            partitions=[
                MetadataResponsePartition(partition_index=index, isr_nodes=[1, 2])
                for index in range(5)
            ],
        )
        for number in range(10)
    ]
)
REQUEST = FetchRequest(
    topics=[
        FetchTopic(
            topic=f"t{number}", partitions=[FetchPartition(partition=index) for index in range(3)]
        )
        for number in range(10)
    ],
    rack_id="r",
)


@pytest.mark.parametrize("version", range(14))
def test_a_stepwise_encoder_stops_at_each_element(version: int) -> None:
    steps, parts = finish(RESPONSE.encode_stepwise(version))
    assert joined(parts) == joined(RESPONSE.encode(version))
    assert steps >= 60


@pytest.mark.parametrize("version", range(4, 19))
def test_a_stepwise_decoder_stops_at_each_element(version: int) -> None:
    data = joined(REQUEST.encode(version))
    steps, message = finish(FetchRequest.decode_stepwise(b"xx" + data + b"trailing", version, 2))
    assert message == FetchRequest.decode(data, version)
    assert steps >= 40


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_stepwise_decoder_refuses_what_the_other_refuses(version: int) -> None:
    data = joined(REQUEST.encode(version))
    for length in range(0, len(data), 7):
        with pytest.raises(MalformedMessage) as whole:
            FetchRequest.decode(data[:length], version)
        with pytest.raises(MalformedMessage) as stepwise:
            finish(FetchRequest.decode_stepwise(data[:length], version))
        assert str(stepwise.value) == str(whole.value)


def test_a_version_that_is_not_there_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="versions"):
        finish(MetadataRequest.decode_stepwise(b"", 99))
    with pytest.raises(MalformedMessage, match="versions"):
        finish(RESPONSE.encode_stepwise(99))


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be encoded"):
        finish(MetadataResponse(controller_id=2**40).encode_stepwise(9))


@pytest.mark.parametrize("version", [0, 9])
def test_a_stepwise_encoder_joins_its_pieces_as_it_goes(version: int) -> None:
    topics = [MetadataResponseTopic(name=f"t{number}") for number in range(20_000)]
    response = MetadataResponse(topics=topics)
    _, parts = finish(response.encode_stepwise(version))
    assert joined(parts) == joined(response.encode(version))
    assert max(map(len, parts)) < 50_000
