"""Records of consumer groups: what is read is what was written, by us or by another Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.groups.commands import Protocol
from odradek.groups.consumer import records
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import (
    ClassicProfile,
    ConsumerMember,
    MemberState,
    Profile,
    TopicIdPartition,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import encode_versioned
from odradek.protocol.types import TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)

texts = st.text(max_size=5)
partitions = st.builds(TopicIdPartition, st.sampled_from([A, B]), st.integers(0, 5))
given_partitions = st.dictionaries(partitions, st.integers(0, 9), max_size=5)
classic_sides = st.builds(
    ClassicProfile,
    st.integers(0, 99),
    st.lists(st.builds(Protocol, texts, st.binary(max_size=4)), max_size=2).map(tuple),
)
profiles = st.builds(
    Profile,
    st.none() | texts,
    st.none() | texts,
    texts,
    texts,
    st.frozensets(texts, max_size=3),
    texts,
    st.integers(-1, 99),
    st.none() | texts,
    st.none() | classic_sides,
)
known_states = st.sampled_from(list(MemberState))


@given(profiles)
def test_a_profile_is_read_as_it_was_written(profile: Profile) -> None:
    written = records.member_record("g", ConsumerMember("m", profile))
    assert written.value is not None
    assert records.read_profile(written.value) == profile
    assert records.read_key(written.key) == (records.MEMBER, "g", "m")


@given(st.integers(-2, 9), known_states, given_partitions, given_partitions)
def test_a_place_is_read_as_it_was_written(
    epoch: int,
    state: MemberState,
    assigned: dict[TopicIdPartition, int],
    to_revoke: dict[TopicIdPartition, int],
) -> None:
    member = ConsumerMember("m", Profile(), epoch, epoch - 1, state, assigned, to_revoke)
    written = records.current_record("g", member)
    assert written.value is not None
    assert records.read_current(ConsumerMember("m"), written.value) == member


@given(st.frozensets(partitions))
def test_a_target_is_read_as_it_was_written(target: frozenset[TopicIdPartition]) -> None:
    written = records.target_record("g", "m", target)
    assert written.value is not None
    assert records.read_target(written.value) == target


def place(epochs: list[int] | None, state: int = 0) -> bytes:
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=state,
        assigned_partitions=[
            records.CurrentPartitions(topic_id=A, partitions=[0, 1], assignment_epochs=epochs)
        ],
    )
    return encode_versioned(value, 0)


@pytest.mark.parametrize("epochs", [None, []])
def test_before_4_3_partitions_had_no_epochs(epochs: list[int] | None) -> None:
    read = records.read_current(ConsumerMember("m"), place(epochs))
    assert read.assigned == {TopicIdPartition(A, 0): 7, TopicIdPartition(A, 1): 7}


def test_epochs_that_do_not_fit_are_malformed() -> None:
    with pytest.raises(MalformedMessage, match="differ in number"):
        records.read_current(ConsumerMember("m"), place([1]))


def test_a_state_of_the_future_is_unknown() -> None:
    read = records.read_current(ConsumerMember("m"), place([1, 2], state=9))
    assert read.state is MemberState.UNKNOWN


def test_the_topics_that_kafka_4_0_wrote_are_forgotten_with_the_group() -> None:
    group = ConsumerGroup("g")
    key = records.key_of(records.OLD_TOPICS, "g")
    group.apply(records.read_key(key), b"whatever")
    assert records.tombstone(records.OLD_TOPICS, "g") in group.tombstones()
    group.apply(records.read_key(key), None)
    assert records.tombstone(records.OLD_TOPICS, "g") not in group.tombstones()


def test_keys_in_kafkas_bytes() -> None:
    assert records.key_of(records.GROUP, "g") == b"\x00\x03\x00\x01g"
    assert records.key_of(records.CURRENT, "g", "m") == b"\x00\x08\x00\x01g\x00\x01m"
    assert records.key_of(records.PATTERN, "g", "a.*") == b"\x00\x10\x00\x01g\x00\x03a.*"
