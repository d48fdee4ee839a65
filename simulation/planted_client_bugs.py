"""Planted bugs that our own client and the Spark sink once had; see `planted_bugs`.

forget-sequences          a producer forgets the sequence numbers of a topic that was idle
split-in-front            the parts of a batch that is split go before those of the one before it
outrun-the-memory         a producer sends more than the five batches that a broker remembers
go-on-unseen              a poll that is interrupted goes on and drops the records it takes
believe-a-follower        a consumer asks a former leader, and believes that its offset is gone
take-later-for-done       the sink takes the marker of any later batch for its own
commit-replays-by-task    a task of a replayed batch commits without asking what others have written
"""

import asyncio
from typing import Any

from odradek.broker.fetching import consumer_reader
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.idempotence import Idempotence
from odradek.spark import exactly_once
from odradek.spark.markers import TaskWrite

Patch = tuple[object, str, Any]


def forget_sequences() -> list[Patch]:
    forget = Accumulator.forget

    def forget_all(self: Accumulator, topic: str, may_drop: Any) -> bool:
        return forget(self, topic, lambda queue: True)

    return [(Accumulator, "forget", forget_all)]


def split_in_front() -> list[Patch]:
    split = Accumulator.split

    def split_to_the_front(self: Accumulator, batch: Any) -> Any:
        pieces = split(self, batch)
        for piece in reversed(pieces):
            batch.queue.batches.remove(piece)
            batch.queue.batches.appendleft(piece)
        return pieces

    return [(Accumulator, "split", split_to_the_front)]


def outrun_the_memory() -> list[Patch]:
    def bump(self: Idempotence, batch: Any) -> None:
        if batch.queue.sequences.in_flight[:1] == [batch]:
            self._request_bump(batch.queue)

    return [
        (Idempotence, "_has_room", lambda *_: True),
        (Idempotence, "_bump_if_gap_is_real", bump),
    ]


def go_on_unseen() -> list[Patch]:
    poll = Consumer.poll

    async def poll_behind_a_shield(self: Consumer, *arguments: Any, **options: Any) -> Any:
        return await asyncio.shield(asyncio.ensure_future(poll(self, *arguments, **options)))

    return [(Consumer, "poll", poll_behind_a_shield)]


def believe_a_follower() -> list[Patch]:
    def believe(self: Fetcher, requested: Any) -> None:
        self._positions.handle_out_of_range(requested.state)

    return [
        (Fetcher, "_still_read_from", lambda self, broker, states: states),
        (Fetcher, "_handle_out_of_range", believe),
        # Kafka's followers answer OFFSET_OUT_OF_RANGE too.
        (consumer_reader, "_check_follower_has", lambda *_: None),
    ]


def take_later_for_done() -> list[Patch]:
    def done(task: TaskWrite, markers: Any, topic_id: Any) -> Any:
        later = [marker for marker in markers if marker.done_offset >= task.done_offset]
        return max(later, key=lambda one: one.done_offset, default=None)

    return [
        (exactly_once, "done", done),
        (exactly_once, "refuse_older", lambda *_: None),
        (TaskWrite, "compare", lambda *_: None),
    ]


def commit_replays_by_task() -> list[Patch]:
    look = exactly_once._is_begun

    def look_and_forget(*arguments: Any) -> bool:
        look(*arguments)
        return False

    return [(exactly_once, "_is_begun", look_and_forget)]
