"""Committed offsets: plain, in transactions, deleted, expired, and read back from the log."""

from collections.abc import Callable

import pytest

from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchedOffset,
    FetchOffsets,
    ForgetTopics,
    GroupDescription,
    LeavingMember,
    OffsetToCommit,
    PartitionToFetch,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicId, TopicPartition
from odradek.statemachine.machine import ProducerIdentity
from tests.unit.groups.driver import GROUP, SESSION_MS, START_MS, T0, T1, Coordinator

PRODUCER = ProducerIdentity(ProducerId(7), ProducerEpoch(0))
U0 = TopicPartition("u", 0)
DAY_MS = 24 * 60 * 60 * 1000


def test_what_was_committed_is_read_with_its_epoch_and_note() -> None:
    coordinator = Coordinator()
    coordinator.commit(42, metadata="note")
    assert coordinator.fetch(T0, T1) == [FetchedOffset(T0, 42, 5, "note"), FetchedOffset(T1)]
    coordinator.commit(41)
    assert coordinator.fetch(T0) == [FetchedOffset(T0, 41, 5, "")]


def test_all_offsets_of_a_group() -> None:
    coordinator = Coordinator()
    for partition in (T1, T0, U0):
        coordinator.commit(1, partition=partition)
    coordinator.commit(2, group_id="other")
    assert [found.partition for found in coordinator.fetch()] == [T1, T0, U0]
    assert coordinator.fetch(group_id="nobody") == []


def test_a_note_that_is_too_long_is_refused_alone() -> None:
    coordinator = Coordinator(offset_metadata_max_bytes="3")
    offsets = (OffsetToCommit(T0, 1, metadata="long"), OffsetToCommit(T1, 2, metadata="ok"))
    errors = coordinator.ask(CommitOffsets(GROUP, "", None, -1, offsets)).answer(list)
    assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert [each.offset for each in coordinator.fetch(T0, T1)] == [-1, 2]


@pytest.mark.parametrize("producer", [None, PRODUCER])
def test_offsets_that_no_batch_can_hold_are_refused_together(
    producer: ProducerIdentity | None,
) -> None:
    """As by Kafka 4: a commit is written as a whole, and a batch has max.message.bytes at most."""
    coordinator = Coordinator(message_max_bytes="100000")

    def commit(count: int) -> None:
        offsets = tuple(OffsetToCommit(TopicPartition("t", each), 1) for each in range(count))
        coordinator.ask(CommitOffsets(GROUP, "", None, -1, offsets, producer=producer))

    with pytest.raises(ApiError, match="send them in several requests") as caught:
        commit(3000)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.log == []
    commit(500)
    assert len(coordinator.log) == 500


def test_offsets_of_a_topic_made_anew_are_not_those_of_the_old() -> None:
    coordinator = Coordinator()
    old, new = TopicId(b"o" * 16), TopicId(b"n" * 16)
    offset = OffsetToCommit(T0, 5, topic_id=old)
    coordinator.ask(CommitOffsets(GROUP, "", None, -1, (offset,)))

    def fetched(topic_id: TopicId) -> int:
        query = FetchOffsets(GROUP, (PartitionToFetch(T0, topic_id),))
        found: list[FetchedOffset] = coordinator.ask(query).answer(list)
        return found[0].offset

    assert (fetched(old), fetched(new)) == (5, -1)
    assert coordinator.fetch(T0)[0].offset == 5
    coordinator.restart()
    assert (fetched(old), fetched(new)) == (5, -1)


class TestTransactions:
    def test_an_offset_counts_when_its_transaction_commits(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(1)
        coordinator.commit(2, producer=PRODUCER)
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.end_transaction(PRODUCER, committed=True)
        assert coordinator.fetch(T0)[0].offset == 2

    def test_an_offset_of_an_aborted_transaction_never_was(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(1)
        coordinator.commit(2, producer=PRODUCER)
        coordinator.end_transaction(PRODUCER, committed=False)
        assert coordinator.fetch(T0)[0].offset == 1
        assert not coordinator.machine.offsets.pending

    def test_who_wants_stable_offsets_waits_for_open_transactions(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(1)
        coordinator.commit(1, partition=T1)
        coordinator.commit(2, producer=PRODUCER)
        unstable = FetchedOffset(T0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert coordinator.fetch(T0, T1, require_stable=True) == [
            unstable,
            FetchedOffset(T1, 1, 5, ""),
        ]
        assert coordinator.fetch(require_stable=True)[0] == unstable
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.end_transaction(PRODUCER, committed=True)
        assert coordinator.fetch(T0, require_stable=True)[0].offset == 2

    def test_the_later_commit_counts_even_if_the_transaction_ends_after_it(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(2, producer=PRODUCER)
        coordinator.commit(3)
        coordinator.end_transaction(PRODUCER, committed=True)
        assert coordinator.fetch(T0)[0].offset == 3

    def test_producers_do_not_disturb_each_other(self) -> None:
        coordinator = Coordinator()
        other = ProducerIdentity(ProducerId(8), ProducerEpoch(0))
        coordinator.commit(2, producer=PRODUCER)
        coordinator.commit(3, producer=other, partition=T1)
        coordinator.end_transaction(PRODUCER, committed=True)
        assert [each.offset for each in coordinator.fetch(T0, T1)] == [2, -1]
        coordinator.end_transaction(other, committed=False)
        assert [each.offset for each in coordinator.fetch(T0, T1)] == [2, -1]

    def test_a_marker_of_a_later_epoch_ends_the_transaction(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(2, producer=PRODUCER)
        coordinator.end_transaction(
            PRODUCER._replace(producer_epoch=ProducerEpoch(1)), committed=True
        )
        assert coordinator.fetch(T0)[0].offset == 2

    def test_a_marker_without_offsets_is_nothing(self) -> None:
        coordinator = Coordinator()
        coordinator.end_transaction(PRODUCER, committed=True)
        assert not coordinator.machine.groups

    def test_the_records_are_the_producer_s(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(2, producer=PRODUCER)
        assert coordinator.outcome.producer == PRODUCER

    def test_a_group_in_a_transaction_alone_is_listed(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(2, producer=PRODUCER)
        assert [each.group_id for each in coordinator.machine.listings()] == [GROUP]

    def test_deleting_takes_pending_offsets_along(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(2, producer=PRODUCER)
        coordinator.ask(DeleteOffsets(GROUP, (T0,)))
        coordinator.end_transaction(PRODUCER, committed=True)
        assert coordinator.fetch(T0)[0].offset == -1
        assert not coordinator.machine.offsets.pending


class TestDeletion:
    def test_offsets(self) -> None:
        coordinator = Coordinator()
        coordinator.commit(1)
        coordinator.commit(1, partition=T1)
        errors = coordinator.ask(DeleteOffsets(GROUP, (T0, U0))).answer(list)
        assert errors == [ErrorCode.NONE, ErrorCode.NONE]
        assert len(coordinator.outcome.records) == 1
        assert [each.offset for each in coordinator.fetch(T0, T1)] == [-1, 1]
        missing = coordinator.refusal(DeleteOffsets("nobody", (T0,)))
        assert missing is ErrorCode.GROUP_ID_NOT_FOUND

    def test_offsets_of_subscribed_topics_stay(self) -> None:
        coordinator = Coordinator()
        (joined,) = coordinator.stable_group()
        for partition in (T0, U0):
            coordinator.commit(1, partition=partition, member_id=joined.member_id, generation_id=1)
        errors = coordinator.ask(DeleteOffsets(GROUP, (T0, U0))).answer(list)
        assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
        assert [each.offset for each in coordinator.fetch(T0, U0)] == [1, -1]

    def test_offsets_of_a_group_whose_protocol_nobody_understands_stay(self) -> None:
        coordinator = Coordinator()
        coordinator.join(protocol_type="connect")
        assert coordinator.refusal(DeleteOffsets(GROUP, (T0,))) is ErrorCode.NON_EMPTY_GROUP

    def test_a_group(self) -> None:
        coordinator = Coordinator()
        (joined,) = coordinator.stable_group()
        coordinator.commit(1, member_id=joined.member_id, generation_id=1)
        assert coordinator.refusal(DeleteGroup(GROUP)) is ErrorCode.NON_EMPTY_GROUP
        coordinator.leave(LeavingMember(joined.member_id))
        coordinator.commit(2, producer=PRODUCER, partition=T1)
        assert coordinator.ask(DeleteGroup(GROUP)).answers == [None]
        assert not coordinator.machine.groups
        assert coordinator.fetch() == []
        assert coordinator.refusal(DeleteGroup(GROUP)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert not coordinator.replayed().groups

    def test_a_topic(self) -> None:
        coordinator = Coordinator()
        for group_id in (GROUP, "other"):
            for partition in (T0, T1, U0):
                coordinator.commit(1, partition=partition, group_id=group_id)
        coordinator.commit(2, producer=PRODUCER, group_id="third")
        assert coordinator.ask(ForgetTopics(frozenset({"t"}))).answer(int) == 5
        assert [each.partition for each in coordinator.fetch()] == [U0]
        coordinator.end_transaction(PRODUCER, committed=True)
        assert coordinator.fetch(T0, group_id="third")[0].offset == -1


class TestRetention:
    def test_offsets_of_a_consumer_on_its_own_expire_after_the_commit(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes=str(24 * 60))
        coordinator.commit(1)
        coordinator.pass_time(DAY_MS // 2)
        coordinator.commit(1, partition=T1)
        coordinator.pass_time(DAY_MS // 2 + 600_000)
        assert [each.partition for each in coordinator.fetch()] == [T1]
        coordinator.pass_time(DAY_MS)
        assert not coordinator.machine.groups
        assert not coordinator.replayed().groups

    def test_offsets_of_a_group_expire_after_it_became_empty(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes=str(24 * 60))
        (joined,) = coordinator.stable_group()
        coordinator.commit(1, member_id=joined.member_id, generation_id=1)
        for _ in range(2 * DAY_MS // SESSION_MS):
            coordinator.pass_time(SESSION_MS - 1)
            coordinator.beat(joined.member_id, 1)
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.leave(LeavingMember(joined.member_id))
        coordinator.pass_time(DAY_MS - 600_000)
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.pass_time(1_200_000)
        assert not coordinator.machine.groups

    def test_topics_no_longer_subscribed_to_expire_under_a_living_group(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes="20")
        (joined,) = coordinator.stable_group()
        for partition in (T0, U0):
            coordinator.commit(1, partition=partition, member_id=joined.member_id, generation_id=1)
        for _ in range(240):
            coordinator.pass_time(SESSION_MS - 1)
            coordinator.beat(joined.member_id, 1)
        assert [each.partition for each in coordinator.fetch()] == [T0]
        assert coordinator.group().state is State.STABLE

    def test_an_open_transaction_keeps_offsets_and_group(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes="1")
        coordinator.commit(1)
        coordinator.commit(2, producer=PRODUCER)
        coordinator.pass_time(3_600_000)
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.end_transaction(PRODUCER, committed=False)
        coordinator.pass_time(600_000)
        assert not coordinator.machine.groups

    def test_old_clients_say_how_long(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes="1")
        coordinator.commit(1, retention_ms=2 * 3_600_000)
        coordinator.pass_time(3_600_000)
        coordinator.restart()
        assert coordinator.fetch(T0)[0].offset == 1
        coordinator.pass_time(3_600_000)
        assert coordinator.fetch() == []

    @pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 2_000_000_000_000])
    def test_old_clients_may_ask_for_longer_than_time_can_be_counted(
        self, retention_ms: int
    ) -> None:
        coordinator = Coordinator(offsets_retention_minutes="1")
        coordinator.commit(1, retention_ms=retention_ms)
        coordinator.pass_time(3_600_000)
        coordinator.restart()
        assert coordinator.fetch(T0)[0].offset == 1

    def test_a_group_that_nobody_joined_goes_but_not_under_somebody_s_feet(self) -> None:
        coordinator = Coordinator()
        coordinator.join(requires_member_id=True, session_ms=1_800_000)
        coordinator.pass_time(600_000)
        assert GROUP in coordinator.machine.groups
        coordinator.pass_time(1_800_000)
        assert not coordinator.machine.groups

    def test_many_are_dropped_in_turns(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes="1")
        for number in range(1200):
            coordinator.commit(1, group_id=f"g{number}")
        coordinator.pass_time(600_000)
        assert len(coordinator.machine.groups) == 700
        coordinator.pass_time(10)
        assert len(coordinator.machine.groups) == 200
        coordinator.pass_time(100)
        assert not coordinator.machine.groups

    def test_groups_with_many_offsets_are_dropped_in_more_turns(self) -> None:
        coordinator = Coordinator(offsets_retention_minutes="1")
        offsets = tuple(OffsetToCommit(TopicPartition("t", each), 1) for each in range(6000))
        for number in range(5):
            coordinator.ask(CommitOffsets(f"g{number}", "", None, -1, offsets))
        coordinator.pass_time(600_000)
        assert len(coordinator.machine.groups) == 3
        coordinator.pass_time(10)
        assert len(coordinator.machine.groups) == 1
        coordinator.pass_time(10)
        assert not coordinator.machine.groups


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.commit(1),
        lambda c: c.stable_group(3),
        lambda c: c.leave(LeavingMember(c.stable_group()[0].member_id)),
        lambda c: c.join(instance="i"),
        lambda c: (c.commit(1), c.commit(2, producer=PRODUCER)),
        lambda c: (c.commit(2, producer=PRODUCER), c.end_transaction(PRODUCER, committed=True)),
        lambda c: (c.commit(1), c.ask(DeleteGroup(GROUP))),
    ],
)
def test_a_replay_gives_the_same(act: Callable[[Coordinator], object]) -> None:
    coordinator = Coordinator()
    act(coordinator)
    replayed = coordinator.replayed()
    assert replayed.offsets.committed == coordinator.machine.offsets.committed
    assert replayed.offsets.pending == coordinator.machine.offsets.pending
    assert list(replayed.groups) == list(coordinator.machine.groups)
    for group in replayed.groups.values():
        assert isinstance(group, ClassicGroup)
        live = coordinator.group()
        if live.state in (State.STABLE, State.EMPTY):
            assert group.record() == live.record()
            assert group.subscribed_topics == live.subscribed_topics


def test_a_new_coordinator_goes_on_with_the_members() -> None:
    coordinator = Coordinator()
    joined = coordinator.stable_group(2)
    coordinator.restart()
    for each in joined:
        assert coordinator.beat(each.member_id, 1) is ErrorCode.NONE
    coordinator.commit(1, member_id=joined[0].member_id, generation_id=1)
    coordinator.pass_time(SESSION_MS)
    assert coordinator.group().is_empty


def test_lists_and_descriptions() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    coordinator.commit(1, group_id="alone")
    machine = coordinator.machine
    assert machine.listings() == [
        (GROUP, "consumer", "Stable", "classic"),
        ("alone", "", "Empty", "classic"),
    ]
    assert [each.group_id for each in machine.listings(["empty", "DEAD"])] == ["alone"]
    assert [each.group_id for each in machine.listings(["stable"], ["Classic"])] == [GROUP]
    assert machine.listings(types=["consumer"]) == []
    described = coordinator.ask(DescribeGroup(GROUP)).answer(GroupDescription)
    assert (described.state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol_name == "range"
    (member,) = described.members
    assert member.member_id == joined.member_id
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.assignment == joined.member_id.encode()
    assert member.metadata
    coordinator.join()
    described = coordinator.ask(DescribeGroup(GROUP)).answer(GroupDescription)
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert described.members[0].metadata == b""
    assert coordinator.refusal(DescribeGroup("nobody")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_time_of_a_commit_is_that_of_the_wall() -> None:
    coordinator = Coordinator()
    coordinator.pass_time(123)
    coordinator.commit(1)
    assert coordinator.machine.offsets.of(GROUP)[T0].commit_timestamp_ms == START_MS + 123
