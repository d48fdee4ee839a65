"""What a reset of a group would do: for each partition the offset before and after."""

from dataclasses import dataclass
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.console.asking import BadForm, Form
from odradek.console.records.reading import listed_offsets
from odradek.console.times import time_ms
from odradek.protocol.types import TopicPartition

TARGETS: Final = {
    "earliest": "The first record",
    "latest": "The end: only new records",
    "time": "The first record from a time on",
    "offset": "An offset",
    "shift": "Forward or back by a number of records",
    "each": "Each partition to an offset of its own",
}
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a reset. `note` says where the wish could not be obeyed as it is."""

    topic: str
    partition: int
    before: int | None
    after: int
    end: int
    note: str = ""

    @property
    def lag_before(self) -> int | None:
        return None if self.before is None else max(0, self.end - self.before)

    @property
    def lag_after(self) -> int:
        return max(0, self.end - self.after)


async def plan_moves(admin: Admin, query: Form, current: Offsets) -> list[Move]:
    """Returns the moves that the form asks for, within the logs. Raises `BadForm`."""
    partitions = await _chosen(admin, query, current)
    if not partitions:
        raise BadForm("Choose at least one topic, or write another one")
    firsts = await listed_offsets(admin, partitions, EARLIEST)
    ends = await listed_offsets(admin, partitions, LATEST)
    wishes = await _wishes(admin, query, current, firsts, ends)
    moves = []
    for partition in partitions:
        if partition not in firsts or partition not in ends or partition not in wishes:
            continue
        first, end, wish = firsts[partition], ends[partition], wishes[partition]
        after = max(first, min(wish, end))
        note = ""
        if wish < first:
            note = f"{wish:,} is before the first record"
        elif wish > end:
            note = f"{wish:,} is after the end"
        before = current.get(partition)
        moves.append(Move(partition.topic, partition.partition, before, after, end, note))
    return moves


async def _chosen(admin: Admin, query: Form, current: Offsets) -> list[TopicPartition]:
    """Returns the partitions of the chosen topics. Those without an offset cannot be shifted."""
    if query.text("to") == "each":
        return sorted(own_offsets(query))
    topics = {*query.many("topic"), query.text("other_topic")} - {""}
    only = query.number("partition", "Partition", at_most=2**31 - 1)
    known = {partition for partition in current if partition.topic in topics}
    if query.text("to") != "shift":
        for name, topic in (await admin.list_topics(include_internal=True)).items():
            if name in topics:
                known |= {
                    TopicPartition(name, index)
                    for index, partition in topic.partitions.items()
                    if partition.leader >= 0
                }
    return sorted(one for one in known if only is None or one.partition == only)


async def _wishes(
    admin: Admin, query: Form, current: Offsets, firsts: Offsets, ends: Offsets
) -> Offsets:
    target = query.text("to")
    if target == "earliest":
        return firsts
    if target == "latest":
        return ends
    if target == "offset":
        offset = query.number("offset", "Offset")
        if offset is None:
            raise BadForm("Offset: say to which one")
        return dict.fromkeys(ends, offset)
    if target == "shift":
        shift = query.number("shift", "Shift", at_least=-(2**62), at_most=2**62)
        if not shift:
            raise BadForm("Shift: by how many records, such as -100 to read 100 again")
        return {one: offset + shift for one, offset in current.items()}
    if target == "time":
        at = await listed_offsets(admin, list(ends), time_ms(query.text("time")))
        # A partition without a record of that time or later is read from its end on.
        return {one: offset if offset >= 0 else ends[one] for one, offset in at.items()}
    if target == "each":
        return own_offsets(query)
    raise BadForm(f"To: one of {', '.join(TARGETS)}")


def own_offsets(query: Form) -> Offsets:
    """Returns what lines TOPIC PARTITION OFFSET say. Raises `BadForm`."""
    offsets: Offsets = {}
    for line in query.raw("offsets").splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or not all(word.isdecimal() and len(word) < 19 for word in words[1:]):
            raise BadForm(f"Offsets: {line.strip()[:60]!r} is not TOPIC PARTITION OFFSET")
        offsets[TopicPartition(words[0], int(words[1]))] = int(words[2])
    if not offsets:
        raise BadForm("Offsets: write a line TOPIC PARTITION OFFSET for each partition")
    return offsets
