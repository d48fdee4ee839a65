"""One consumer of the churn, in a process of its own so that it can be killed.

It says what happens to it, as it happens, over a pipe; when it is told anything, it closes. What it
read it says before it commits, so that what is committed and never said cannot be.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.scenarios.ownership import Event, What

# What a consumer read: partition, first offset, the offset after the last.
Runs = list[tuple[int, int, int]]


class ChurningMember:
    def __init__(
        self, name: str, topic: str, settings: Mapping[str, str | int | bool], pipe: Connection
    ) -> None:
        self._name = name
        self._topic = topic
        self._pipe = pipe
        self._consumer = Consumer({**settings, "on_commit": self._committed})
        # What was read and is not known to be committed; a rebalance may refuse a commit.
        self._positions: dict[int, int] = {}
        self._is_committing = False

    def run(self) -> None:
        self._say(What.SUBSCRIBED)
        self._consumer.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: self._say(What.ASSIGNED, partitions),
            on_revoke=lambda _, partitions: self._give_up(What.REVOKED, partitions),
            on_lost=lambda _, partitions: self._give_up(What.LOST, partitions),
        )
        while not self._pipe.poll(0):
            read = runs(self._consumer.consume(500, 0.2))
            if read:
                self._pipe.send(read)
                self._positions.update((partition, after) for partition, _, after in read)
            if self._positions and not self._is_committing:
                self._commit()
        self._say(What.CLOSING)
        self._consumer.close()
        self._pipe.close()

    def _say(self, what: What, partitions: Sequence[TopicPartition] = ()) -> None:
        numbers = tuple(each.partition for each in partitions)
        generation = _generation(self._consumer)
        self._pipe.send(Event(time.monotonic(), self._name, what, numbers, generation))

    def _give_up(self, what: What, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop(each.partition, None)
        self._say(what, partitions)

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, *position) for position in self._positions.items()]
        self._consumer.commit(offsets=offsets, asynchronous=True)
        self._is_committing = True

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._is_committing = False
        for each in partitions:
            is_done = error is None and each.error is None
            if is_done and self._positions.get(each.partition) == each.offset:
                del self._positions[each.partition]


def consume(
    name: str, topic: str, settings: Mapping[str, str | int | bool], pipe: Connection
) -> None:
    ChurningMember(name, topic, settings, pipe).run()


def runs(messages: Sequence[Message]) -> Runs:
    """Offsets that follow each other are one run, a partition's runs in the order of reading."""
    found: Runs = []
    at: dict[int, int] = {}
    for message in messages:
        if message.error() is not None:
            continue
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        index = at.get(partition)
        if index is not None and found[index][2] == offset:
            found[index] = (partition, found[index][1], offset + 1)
        else:
            at[partition] = len(found)
            found.append((partition, offset, offset + 1))
    return found


def _generation(consumer: Consumer) -> int:
    """librdkafka hands out its group metadata as bytes: a magic word, then the generation."""
    try:
        written: bytes = consumer.consumer_group_metadata()
    except RuntimeError:  # it is being closed
        return -1
    generation: int = struct.unpack_from("=i", written, len(b"CGMDv2:"))[0]
    return generation
