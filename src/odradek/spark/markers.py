"""Markers: committed offsets by which the exactly-once sink records that a batch is written.

This module decides whether a marker is about the batch that a task is about to write. It has pure
functions that use neither brokers nor pyspark; `exactly_once` reads and writes the markers.

A marker is the committed offset of a group. The group's name has the query, the topic and the task;
the offset is the batch + 1; the metadata has the topic's id, the run and the write that made it,
and a fingerprint of the rows.

Invariant: `done` returns only the marker of the same batch in the topic that exists now. A marker
of a later batch, or of another write of the batch, raises `WriteRefused`: the sink skips rows only
if it can prove that they are written.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.admin.group_types import GroupOffset
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.wording import counted


class ReplayDiffers(RuntimeError):
    """A replayed batch gives a task other rows than the task has already written."""


class WriteRefused(RuntimeError):
    """The sink cannot tell whether the rows of a batch were written; the message says what to
    do."""


class Fingerprint(NamedTuple):
    """The number of rows and the sum of their fingerprints, which do not depend on their order."""

    rows: int
    total: int


class TaskWrite(NamedTuple):
    """One task of one micro-batch. `name` is both its transactional id and its group.

    `run` is the id of the query's run (a query that is started again has a new one). `write` is the
    id of the write within the run: code in foreachBatch may make several. Both are empty if
    unknown.
    """

    name: str
    batch_id: int
    run: str = ""
    write: str = ""

    @property
    def done_offset(self) -> int:
        """The offset that the group has committed when this batch is written."""
        return self.batch_id + 1

    def name_of_all_tasks(self, prefix: str) -> str:
        """The part of the name that all tasks of this query and topic share, without the prefix."""
        return self.name.removeprefix(prefix).rstrip("0123456789")

    def compare(self, marker: "Marker", now: Fingerprint) -> None:
        """Raises `ReplayDiffers` unless the rows that were written for this batch are the same as
        those that the task has now. `now` is the fingerprint of the latter."""
        assert marker.done_offset == self.done_offset, (marker, self)
        if marker.fingerprint != now:
            raise ReplayDiffers(
                f"batch {self.batch_id} is in topic {marker.topic} already: {self.name} has written"
                f" {counted(marker.fingerprint.rows, 'row')}, and its replay has {now.rows} that"
                " differ. Nothing was written now. If the checkpoint was restored from a backup or"
                " copied, it is a batch behind the topic: put back the newest checkpoint, or start"
                " with a new checkpointLocation and with startingOffsets after the records that"
                " are already written. If it was not, the query does not give the same rows to the"
                " same task twice (rand(), current_timestamp(), a lookup that changes): make it do"
                " so, or accept rows that are written twice: option('deliveryGuarantee',"
                " 'at-least-once')"
            )


class Marker(NamedTuple):
    """The last batch that a task has written, and the topic it wrote to."""

    topic: str
    topic_id: TopicId
    done_offset: int
    fingerprint: Fingerprint
    run: str
    write: str

    @classmethod
    def of(
        cls, task: TaskWrite, topic: str, topic_id: TopicId, fingerprint: Fingerprint
    ) -> "Marker":
        return cls(topic, topic_id, task.done_offset, fingerprint, task.run, task.write)

    def to_metadata(self) -> str:
        return json.dumps(
            {
                "rows": self.fingerprint.rows,
                "total": self.fingerprint.total,
                "topic_id": self.topic_id.hex(),
                "run": self.run,
                "write": self.write,
            }
        )

    @classmethod
    def read(cls, topic: str, committed: GroupOffset) -> "Marker":
        try:
            read = json.loads(committed.metadata)
            return cls(
                topic,
                TopicId(bytes.fromhex(read.get("topic_id", NO_TOPIC_ID.hex()))),
                int(committed.offset),
                Fingerprint(int(read["rows"]), int(read["total"])),
                str(read.get("run", "")),
                str(read.get("write", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise WriteRefused(
                f"the offset {committed.offset} of {topic} was not committed by this sink, so the"
                " sink cannot tell which rows were written: somebody else uses the group; set"
                " another transactionalIdPrefix"
            ) from None


def read_all(answers: Mapping[TopicPartition, GroupOffset | KafkaError]) -> list[Marker]:
    """Returns the markers of a group, one for each topic that the task has written to."""
    markers = []
    for topic_partition, answer in sorted(answers.items()):
        if isinstance(answer, KafkaError):
            raise answer
        if answer.offset >= 0:
            markers.append(Marker.read(topic_partition.topic, answer))
    return markers


def done(
    task: TaskWrite, markers: list[Marker], topic_id: Callable[[str], TopicId]
) -> Marker | None:
    """Returns the marker that proves that this batch is in the topic, or None if it is not there.

    `topic_id` asks the brokers; it is called only if there is a marker of this batch or a later
    one. A marker of a topic that was deleted and created again is ignored: its rows were in the old
    topic.
    """
    claims = [
        marker
        for marker in markers
        if marker.done_offset >= task.done_offset
        and marker.topic_id in {NO_TOPIC_ID, topic_id(marker.topic)}
    ]
    if not claims:
        return None
    marker = max(claims, key=lambda marker: marker.done_offset)
    refuse_older(task, marker)
    if task.run and marker.run == task.run and marker.write != task.write:
        raise WriteRefused(
            f"batch {task.batch_id} has already been written into topic {marker.topic} by another"
            " write of the same foreachBatch: the sink cannot tell a second write from a repetition"
            " of the first. Unite the DataFrames (unionByName) and write them once, or write to"
            " another topic"
        )
    return marker


def refuse_older(task: TaskWrite, marker: Marker) -> None:
    """Raises if a later batch was written already: a run of the query never goes back."""
    if marker.done_offset > task.done_offset:
        raise WriteRefused(
            f"{task.name} is to write batch {task.batch_id}, but batch {marker.done_offset - 1} of"
            f" the query is already in topic {marker.topic}: the checkpoint is older than the"
            " topic. It was restored from a backup, or copied while another query went on with it,"
            " so that rows which are written cannot be told from rows which are not. Put back the"
            " newest checkpoint, or start with a new checkpointLocation and with startingOffsets"
            " after the records that are already written, or accept rows that are written twice:"
            " option('deliveryGuarantee', 'at-least-once')"
        )


def refuse_other_prefix(task: TaskWrite, prefix: str) -> None:
    """Raises because the batch has a marker of the same task with another transactionalIdPrefix."""
    raise WriteRefused(
        f"batch {task.batch_id} has been written by this task under"
        f" transactionalIdPrefix={prefix}: set this prefix again until the batch has succeeded, and"
        " change it afterwards. Two writes of one foreachBatch into one topic are refused as well:"
        " unite the DataFrames (unionByName) and write them once"
    )
