"""One incarnation of a topic: from its creation until it is deleted and created again.

Each incarnation has a history of its own. What was acknowledged in the last one must be there at
the end, except below an offset that was passed to DeleteRecords, and except what retention may
delete.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from odradek.protocol.types import TopicPartition
from simulation.checkers import History, Violation, violations

Records = dict[TopicPartition, list[tuple[int, bytes]]]


@dataclass(slots=True)
class TopicIncarnation:
    """Below the offsets in `asked` records may be gone; below those in `deleted`, for which
    DeleteRecords was acknowledged, they must be gone."""

    history: History = field(default_factory=History)
    asked: dict[TopicPartition, int] = field(default_factory=dict)
    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    has_retention: bool = False

    def end_of(self, partition: TopicPartition) -> int:
        """The offset after the last acknowledged record."""
        offsets = [
            send.offset
            for send in self.history.sends
            if send.partition == partition and send.offset is not None
        ]
        return max(offsets, default=-1) + 1

    def violations(self, found: Records) -> Iterable[Violation]:
        history = self.history
        for partition, records in found.items():
            history.read_at_the_end(partition, records)
            first = records[0][0] if records else None
            must_be_gone = self.deleted.get(partition, 0)
            if first is not None and first < must_be_gone:
                detail = f"{first} can be read, all below {must_be_gone} was deleted"
                yield Violation("undeleted", partition, detail)
        sends = [replace(send) for send in history.sends]
        for send in sends:
            assert isinstance(send.partition, TopicPartition)
            may_be_gone = self.asked.get(send.partition, 0)
            if self.has_retention:
                records = found[send.partition]
                end = self.end_of(send.partition)
                may_be_gone = max(may_be_gone, records[0][0] if records else end)
            if send.offset is not None and send.offset < may_be_gone:
                send.offset = None
        judged = History(sends, history.polls, history.final)
        yield from violations(judged, idempotent=True)
