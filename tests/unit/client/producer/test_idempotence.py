import itertools

import pytest

from odradek.client.producer.accumulator import PartitionQueue, ProducerBatch
from odradek.client.producer.idempotence import Idempotence
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition

NOW_S = 100.0
_numbers = itertools.count(1)
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def queue(name: str = "t") -> PartitionQueue:
    return PartitionQueue(TopicPartition(name, 0))


def batch(partition: PartitionQueue, records: int) -> ProducerBatch:
    made = ProducerBatch(partition, BatchBuilder(), (next(_numbers),), 0.0)
    for _ in range(records):
        made.builder.append(None, b"v", (), 0)
    return made


def started() -> Idempotence:
    state = Idempotence()
    state.new_producer_id(ProducerId(7), ProducerEpoch(0))
    return state


def introduced(state: Idempotence, name: str = "t") -> PartitionQueue:
    """A partition whose broker has acknowledged sequence 0."""
    partition = queue(name)
    (first,) = sent(state, partition, 1)
    state.note_acknowledgement(first, NOW_S)
    return partition


def sent(state: Idempotence, partition: PartitionQueue, *sizes: int) -> list[ProducerBatch]:
    batches = [batch(partition, size) for size in sizes]
    for one in batches:
        assert state.may_send(partition, one, NOW_S)
        state.assign(partition, one)
        one.attempts += 1
    return batches


def test_sequences_count_records() -> None:
    state = started()
    partition = introduced(state)
    batches = sent(state, partition, 3, 5, 1)
    assert [one.base_sequence for one in batches] == [1, 4, 9]
    assert [(one.producer_id, one.producer_epoch) for one in batches] == [(7, 0)] * 3
    assert batches[1].last_sequence == 8


def test_sequences_go_round_after_the_largest() -> None:
    state = started()
    partition = introduced(state)
    partition.sequences.next_sequence = 0x7FFFFFFE
    batches = sent(state, partition, 3, 1)
    assert batches[0].last_sequence == 0
    assert batches[1].base_sequence == 1


def test_the_first_batch_must_be_acknowledged_before_others_follow() -> None:
    state, partition = started(), queue()
    (first,) = sent(state, partition, 1)
    assert not state.may_send(partition, batch(partition, 1), NOW_S)
    state.note_acknowledgement(first, NOW_S)
    assert state.may_send(partition, batch(partition, 1), NOW_S)


def test_a_retry_keeps_its_numbers_and_goes_out_alone_and_in_order() -> None:
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 1, 1)
    assert state.may_retry(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert not state.may_send(partition, second, NOW_S), "the older one goes first"
    assert state.may_send(partition, first, NOW_S)
    state.assign(partition, first)
    assert first.base_sequence == 1
    state.note_acknowledgement(first, NOW_S)
    assert state.may_send(partition, second, NOW_S)


def test_errors_that_retries_do_not_cure_are_final() -> None:
    state, partition = started(), queue()
    (one,) = sent(state, partition, 1)
    assert not state.may_retry(one, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    assert not state.may_retry(one, ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_a_gap_that_an_older_batch_will_fill_is_only_retried() -> None:
    state = started()
    partition = introduced(state)
    _, second = sent(state, partition, 1, 1)
    assert state.may_retry(second, GAP, 0)
    state.settle()
    assert state.producer_epoch == 0


def test_a_gap_that_nothing_can_fill_ends_the_epoch() -> None:
    state = started()
    partition = introduced(state)
    second, third = sent(state, partition, 2, 2)
    assert state.may_retry(second, GAP, 0), "the broker lost what it had acknowledged"
    state.settle()
    assert state.producer_epoch == 1
    assert [(one.producer_epoch, one.base_sequence) for one in (second, third)] == [(1, 0), (1, 2)]
    assert state.may_retry(third, GAP, 0), "it was sent under the old epoch"
    state.settle()
    assert state.producer_epoch == 1
    for one in (second, third):
        assert state.may_send(partition, one, NOW_S)
        state.assign(partition, one)
        state.note_acknowledgement(one, NOW_S)
    assert [one.base_sequence for one in sent(state, partition, 1)] == [4]


@pytest.mark.parametrize("was_answered", [True, False])
def test_a_batch_behind_an_expired_one_gets_another_epoch_if_no_attempt_of_it_waits(
    was_answered: bool,
) -> None:
    """A producer of ours wrote nine records twice: a busy broker appended a batch that had expired,
    and then the first attempt of the next one, which had been sent again under another epoch."""
    state = started()
    partition = introduced(state)
    expired, second, third = sent(state, partition, 2, 2, 2)
    second.is_in_doubt = not was_answered
    state.note_unknown_result(expired)
    assert state.may_retry(second, GAP, 0)
    state.settle()
    found = [(one.producer_epoch, one.base_sequence) for one in (second, third)]
    assert found == ([(1, 0), (1, 2)] if was_answered else [(0, 3), (0, 5)])
    if not was_answered:
        state.note_unknown_result(second)
        assert state.may_retry(third, GAP, 0)
        state.settle()
        assert (third.producer_epoch, third.base_sequence) == (1, 0)


def test_another_epoch_takes_away_the_doubt() -> None:
    state = started()
    partition = introduced(state)
    (only,) = sent(state, partition, 2)
    only.is_in_doubt = True
    assert state.may_retry(only, GAP, 0), "the broker lost what it had acknowledged"
    state.settle()
    assert (only.producer_epoch, only.is_in_doubt) == (1, False)


@pytest.mark.parametrize("was_answered", [True, False])
def test_a_failed_batch_that_may_still_be_appended_leaves_a_gap(was_answered: bool) -> None:
    state = started()
    partition = introduced(state)
    failed, second = sent(state, partition, 2, 2)
    failed.is_in_doubt = second.is_in_doubt = not was_answered
    state.note_failure(failed, sequence_unused=True)
    state.settle()
    assert second.producer_epoch == (1 if was_answered else 0)


def test_a_batch_before_an_acknowledged_one_is_never_sent_under_another_epoch() -> None:
    """It may be in the log: it would be there twice, or behind the later one."""
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 1, 1)
    state.note_acknowledgement(second, NOW_S)
    assert state.may_retry(first, GAP, 0)
    state.settle()
    assert (first.producer_epoch, first.base_sequence) == (0, 1)


def test_another_epoch_forgets_what_was_acknowledged_early() -> None:
    """The leader of the new epoch refuses the oldest batch: then nothing of that epoch is there."""
    state = started()
    partition = introduced(state)
    first, second, third = sent(state, partition, 1, 1, 1)
    state.note_acknowledgement(second, NOW_S)
    assert state.may_retry(first, ErrorCode.UNKNOWN_PRODUCER_ID, 0)
    state.settle()
    assert [(one.producer_epoch, one.base_sequence) for one in (first, third)] == [(1, 0), (1, 1)]
    state.assign(partition, first)
    assert state.may_retry(first, GAP, 0)
    state.settle()
    assert (first.producer_epoch, first.base_sequence) == (2, 0)


def test_no_batch_drives_an_older_one_out_of_the_memory_of_a_broker() -> None:
    """A producer of ours wrote 169 records twice: two batches waited for a leader that had been
    replaced, and the new leader, which had both, acknowledged more than five others meanwhile."""
    state = started()
    partition = introduced(state)
    first, _, third = sent(state, partition, 1, 1, 1)
    state.note_acknowledgement(third, NOW_S)
    fourth, fifth = sent(state, partition, 1, 1)
    sixth = batch(partition, 1)
    assert not state.may_send(partition, sixth, NOW_S)
    state.note_acknowledgement(fourth, NOW_S)
    state.note_acknowledgement(fifth, NOW_S)
    assert not state.may_send(partition, sixth, NOW_S), "the broker would forget the first"
    state.note_acknowledgement(first, NOW_S)
    assert state.may_send(partition, sixth, NOW_S)
    state.assign(partition, sixth)
    assert not state.may_send(partition, batch(partition, 1), NOW_S), "it would forget the second"


def test_other_partitions_finish_under_the_old_epoch_first() -> None:
    state = started()
    broken, other = introduced(state, "broken"), introduced(state, "other")
    (lost,) = sent(state, broken, 1)
    (busy,) = sent(state, other, 1)
    state.may_retry(lost, ErrorCode.UNKNOWN_PRODUCER_ID, 5)
    state.settle()
    fresh = batch(other, 1)
    assert not state.may_send(other, fresh, NOW_S)
    assert busy.producer_epoch == 0
    state.note_acknowledgement(busy, NOW_S)
    assert state.may_send(other, fresh, NOW_S)
    state.assign(other, fresh)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 0)


def test_what_follows_a_batch_of_unknown_fate_waits_until_it_is_known() -> None:
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 1, 1)
    state.note_unknown_result(first)
    state.settle()
    assert not state.may_send(partition, batch(partition, 1), NOW_S)
    state.note_acknowledgement(second, NOW_S)
    state.settle()
    assert state.producer_epoch == 0, "the second was taken, so the first is in the log"
    assert sent(state, partition, 1)[0].base_sequence == 3


def test_a_batch_of_unknown_fate_with_nothing_behind_it_ends_the_epoch() -> None:
    state = started()
    partition = introduced(state)
    (only,) = sent(state, partition, 1)
    state.note_unknown_result(only)
    state.settle()
    assert state.producer_epoch == 1
    (after,) = sent(state, partition, 1)
    assert (after.producer_epoch, after.base_sequence) == (1, 0)


def test_the_batch_behind_one_that_expired_may_find_a_real_gap() -> None:
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 1, 1)
    state.note_unknown_result(first)
    assert state.may_retry(second, GAP, 0)
    state.settle()
    assert (second.producer_epoch, second.base_sequence) == (1, 0)


def test_a_refused_batch_leaves_its_numbers_unused() -> None:
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 1, 1)
    state.note_failure(first, sequence_unused=True)
    state.settle()
    assert (second.producer_epoch, second.base_sequence) == (1, 0)


def test_what_was_sent_before_a_refused_batch_is_decided_under_its_own_epoch() -> None:
    """The broker may have the first already, and would take it again under another epoch."""
    state = started()
    partition = introduced(state)
    first, refused, last = sent(state, partition, 5, 21, 2)
    state.note_failure(refused, sequence_unused=True)
    assert state.may_retry(last, GAP, -1)
    state.settle()
    assert (first.producer_epoch, first.base_sequence) == (0, 1)
    assert state.may_send(partition, first, NOW_S)
    assert not state.may_send(partition, last, NOW_S)
    state.note_acknowledgement(first, NOW_S)
    state.settle()
    assert state.may_send(partition, last, NOW_S)
    assert state.may_retry(last, GAP, -1)
    state.settle()
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


def test_a_gap_behind_a_batch_of_unknown_fate_waits_for_what_was_sent_before_it() -> None:
    state = started()
    partition = introduced(state)
    first, expired, last = sent(state, partition, 5, 21, 2)
    state.note_unknown_result(expired)
    assert state.may_retry(last, GAP, -1)
    state.settle()
    assert (first.producer_epoch, last.producer_epoch) == (0, 0)
    state.note_acknowledgement(first, NOW_S)
    assert state.may_retry(last, GAP, -1)
    state.settle()
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


def test_pieces_of_a_split_batch_share_its_numbers() -> None:
    state = started()
    partition = introduced(state)
    first, second = sent(state, partition, 4, 1)
    pieces = [batch(partition, 1), batch(partition, 3)]
    state.split(first, pieces)
    assert [one.base_sequence for one in pieces] == [1, 2]
    assert partition.sequences.in_flight == [*pieces, second]


def test_an_id_whose_epochs_are_used_up_is_given_back() -> None:
    state, partition = Idempotence(), queue()
    state.new_producer_id(ProducerId(7), ProducerEpoch(32_767))
    (one,) = sent(state, partition, 1)
    state.may_retry(one, ErrorCode.UNKNOWN_PRODUCER_ID, 5)
    state.settle()
    assert not state.has_producer_id
    state.new_producer_id(ProducerId(8), ProducerEpoch(0))
    assert (one.producer_id, one.producer_epoch, one.base_sequence) == (8, 0, 0)
