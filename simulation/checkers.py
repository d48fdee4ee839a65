"""Checks a history of sends and polls against the rules that a log must keep for its clients.

A workload notes what it sent, what was acknowledged, and what every consumer saw; afterwards
`violations` compares. Each value is sent once, so that a value names its send. A send without an
answer may have happened or not. The rules are those that outside checkers apply to Kafka:

    inconsistent    two values at one offset
    phantom         a value polled that was never sent
    lost            an acknowledged value that is not in the log at the end
    moved           an acknowledged value stands at another offset than the answer said
    duplicate       one value at two offsets (with idempotence)
    backwards       a consumer with an assignment saw an offset at or below its last one
    skipped         it left out an offset that holds a record
    unordered       a producer's later send was acknowledged at a lower offset
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

Partition = Hashable


@dataclass(slots=True, eq=False)
class Send:
    producer: str
    partition: Partition
    value: bytes
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    consumer: str
    partition: Partition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    partition: Partition
    detail: str

    def __str__(self) -> str:
        return f"{self.rule} in {self.partition}: {self.detail}"


@dataclass(slots=True)
class History:
    """What clients did and saw, in the order in which it happened."""

    sends: list[Send] = field(default_factory=list)
    # In order. None marks a seek or a restart, after which the consumer may be anywhere.
    polls: dict[tuple[str, Partition], list[Poll | None]] = field(default_factory=dict)
    # The log at the end, as a fresh consumer reads it from its beginning.
    final: dict[Partition, list[tuple[int, bytes]]] = field(default_factory=dict)

    def sending(self, producer: str, partition: Partition, value: bytes) -> Send:
        send = Send(producer, partition, value)
        self.sends.append(send)
        return send

    def acknowledged(self, send: Send, offset: int) -> None:
        send.offset = offset

    def polled(self, consumer: str, partition: Partition, offset: int, value: bytes) -> None:
        polls = self.polls.setdefault((consumer, partition), [])
        polls.append(Poll(consumer, partition, offset, value))

    def moved(self, consumer: str, partition: Partition) -> None:
        self.polls.setdefault((consumer, partition), []).append(None)

    def read_at_the_end(self, partition: Partition, records: Iterable[tuple[int, bytes]]) -> None:
        self.final[partition] = list(records)

    def acknowledged_count(self) -> int:
        return sum(send.offset is not None for send in self.sends)


def violations(
    history: History, *, idempotent: bool = False, durable: bool = True
) -> list[Violation]:
    """All rules that the history breaks.

    `durable=False` is for runs in which a power cut may take records that were not flushed:
    then what was seen before need not be there at the end, and offsets may be given again.
    """
    found = [*_phantoms(history), *_disorder(history, durable=durable)]
    if durable:
        found += _inconsistencies(history)
        found += _losses(history)
        found += _unordered(history)
    if idempotent:
        found += _duplicates(history)
    return found


def _phantoms(history: History) -> Iterable[Violation]:
    sent = {(send.partition, send.value) for send in history.sends}
    for poll in _all_polls(history):
        if (poll.partition, poll.value) not in sent:
            yield Violation("phantom", poll.partition, f"{poll.value!r} at {poll.offset}")


def _inconsistencies(history: History) -> Iterable[Violation]:
    values: dict[tuple[Partition, int], bytes] = {}
    claims = [(p.partition, p.offset, p.value) for p in _all_polls(history)]
    claims += [(s.partition, s.offset, s.value) for s in history.sends if s.offset is not None]
    for partition, offset, value in claims:
        known = values.setdefault((partition, offset), value)
        if known != value:
            yield Violation("inconsistent", partition, f"{known!r} and {value!r} at {offset}")


def _losses(history: History) -> Iterable[Violation]:
    offsets: dict[tuple[Partition, bytes], list[int]] = defaultdict(list)
    for partition, records in history.final.items():
        for offset, value in records:
            offsets[partition, value].append(offset)
    for send in history.sends:
        if send.offset is None or send.partition not in history.final:
            continue
        found = offsets.get((send.partition, send.value))
        if not found:
            yield Violation("lost", send.partition, f"{send.value!r} acknowledged at {send.offset}")
        elif send.offset not in found:
            detail = f"{send.value!r} acknowledged at {send.offset}, stands at {found}"
            yield Violation("moved", send.partition, detail)


def _duplicates(history: History) -> Iterable[Violation]:
    for partition, records in history.final.items():
        first: dict[bytes, int] = {}
        for offset, value in records:
            if value in first:
                detail = f"{value!r} at {first[value]} and {offset}"
                yield Violation("duplicate", partition, detail)
            first.setdefault(value, offset)


def _disorder(history: History, *, durable: bool) -> Iterable[Violation]:
    """Backwards and skipped polls of every consumer, and of the reading at the end."""
    present = {
        partition: [offset for offset, _ in records] for partition, records in history.final.items()
    }
    for (consumer, partition), polls in history.polls.items():
        last: int | None = None
        for poll in polls:
            if poll is not None and last is not None:
                if poll.offset <= last:
                    detail = f"{consumer} saw {poll.offset} after {last}"
                    yield Violation("backwards", partition, detail)
                elif durable:
                    for offset in _between(present.get(partition, []), last, poll.offset):
                        detail = f"{consumer} went from {last} to {poll.offset} without {offset}"
                        yield Violation("skipped", partition, detail)
            last = None if poll is None else poll.offset
    for partition, offsets in present.items():
        for before, after in pairwise(offsets):
            if after <= before:
                yield Violation("backwards", partition, f"at the end, {after} after {before}")


def _between(offsets: list[int], low: int, high: int) -> Iterable[int]:
    return (offset for offset in offsets if low < offset < high) if high - low > 1 else ()


def _unordered(history: History) -> Iterable[Violation]:
    last: dict[tuple[str, Partition], Send] = {}
    for send in history.sends:
        if send.offset is None:
            continue
        before = last.get((send.producer, send.partition))
        if before is not None and before.offset is not None and send.offset <= before.offset:
            detail = f"{send.value!r} at {send.offset}, sent after what stands at {before.offset}"
            yield Violation("unordered", send.partition, detail)
        last[send.producer, send.partition] = send


def _all_polls(history: History) -> Iterable[Poll]:
    for polls in history.polls.values():
        yield from (poll for poll in polls if poll is not None)
    for partition, records in history.final.items():
        yield from (Poll("the end", partition, offset, value) for offset, value in records)
