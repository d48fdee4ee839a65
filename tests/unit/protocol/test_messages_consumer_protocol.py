"""Subscriptions and assignments of consumers that are older or newer than we are."""

import pytest

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"mine",
    owned_partitions=[TopicPartition(topic="a", partitions=[0, 1])],
    generation_id=4,
    rack_id="r",
)


def test_a_subscription_carries_its_version() -> None:
    content = encode_versioned(SUBSCRIPTION, 3)
    assert content.startswith(b"\0\x03\0\0\0\x02\0\x01a")
    assert decode_versioned(ConsumerProtocolSubscription, content) == SUBSCRIPTION


def test_an_old_subscription_lacks_what_is_new() -> None:
    content = encode_versioned(SUBSCRIPTION, 0)
    assert decode_versioned(ConsumerProtocolSubscription, content) == ConsumerProtocolSubscription(
        topics=["a", "b"], user_data=b"mine"
    )


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    content = b"\0\x09" + encode_versioned(SUBSCRIPTION, 3)[2:] + b"what is to come"
    assert decode_versioned(ConsumerProtocolSubscription, content) == SUBSCRIPTION


def test_an_assignment_comes_back() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="a", partitions=[3])]
    )
    content = encode_versioned(assignment, 1)
    assert decode_versioned(ConsumerProtocolAssignment, memoryview(content)) == assignment


@pytest.mark.parametrize("content", [b"", b"\0", b"\xff\xff", b"\0\x01\0\0\0\x09"])
def test_bad_content_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_versioned(ConsumerProtocolSubscription, content)
