"""Judges what the clients of the hosts saw.

The rules of `simulation.checkers` for writers and followers (inconsistent offsets, lost, duplicate,
backwards, skipped, unordered, phantom), and beside them:

    aborted read        a value of an aborted transaction was shown to read_committed
    read before commit  a value was shown before its commit was asked for
    torn                a committed transaction is not wholly there, or is there twice
    unseen              a record that a follower or a group was never given
    copied              consume-transform-produce: a record is missing in the copy, or there twice
"""

import re
import time
from collections import Counter, defaultdict
from typing import Final

from simulation.checkers import violations
from tests.scenarios.chaos_load import judge_transactions, read_all
from tests.scenarios.hosts.workload import COPIES, LOAD, PAIRS, PARTITIONS, Load, Pairs

CATCH_UP_S: Final = 120.0
_VALUE: Final = re.compile(r"b'([\w-]+:\d+)'")
Final_ = dict[int, list[tuple[int, bytes]]]


class PairsSeen:
    """What a follower of the transactions saw, and when."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []
        self.offsets: dict[int, list[int]] = defaultdict(list)

    def note(self, partition: int, offset: int, value: bytes) -> None:
        self.seen.append((int(value), time.monotonic()))
        self.offsets[partition].append(offset)

    def judge(self, pairs: Pairs) -> list[str]:
        found = []
        for number, seen_s in self.seen:
            if pairs.fates.get(number) == "aborted":
                found.append(f"aborted read: transaction {number}")
            elif seen_s < pairs.commit_begun_s.get(number, float("inf")):
                found.append(f"read before commit: transaction {number}")
        for partition, offsets in self.offsets.items():
            if offsets != sorted(set(offsets)):
                found.append(f"backwards: the follower of {PAIRS}-{partition}")
        return found


def caught_up(load: Load, final: Final_, copied: dict[str, set[bytes]]) -> bool:
    """Whether every follower, group and copy has come to the end of the load."""
    every = {value for records in final.values() for _, value in records}
    if any(not every <= seen for seen in [*load.read_by_group.values(), *copied.values()]):
        return False
    ends = {partition: records[-1][0] for partition, records in final.items() if records}
    followers = {name for name, _ in load.history.polls}
    return all(
        (polls := load.history.polls.get((name, partition))) is not None
        and polls[-1] is not None
        and polls[-1].offset >= end
        for name in followers
        for partition, end in ends.items()
    )


def judge_load(load: Load, final: Final_) -> list[str]:
    """Writers, followers and groups."""
    for partition, records in final.items():
        load.history.read_at_the_end(partition, records)
    found = [str(one) for one in violations(load.history, idempotent=True)]
    every = {value for records in final.values() for _, value in records}
    found += [f"lost: {send.value!r}" for send in load.unplaced if send.value not in every]
    for group, seen in load.read_by_group.items():
        found += [f"unseen by group {group}: {value!r}" for value in sorted(every - seen)]
    for follower in {name for name, _ in load.history.polls}:
        for partition, records in final.items():
            polls = load.history.polls.get((follower, partition), [])
            last = max((one.offset for one in polls if one is not None), default=-1)
            found += [
                f"unseen by {follower}: {value!r} at {offset}"
                for offset, value in records
                if offset > last
            ]
    return found


def judge_copies(bootstrap: str, final: Final_) -> list[str]:
    wanted = Counter(value for records in final.values() for _, value in records)
    found = []
    for topic in COPIES.values():
        copied = read_all(bootstrap, topic, PARTITIONS)
        got = Counter(value for records in copied.values() for _, value in records)
        found += [f"copied: {value!r} is missing in {topic}" for value in wanted - got]
        found += [f"copied: {value!r} is {got[value]} times in {topic}" for value in got - wanted]
    return found


def judge_pairs(bootstrap: str, pairs: Pairs, seen: PairsSeen) -> list[str]:
    return [
        *seen.judge(pairs),
        *(f"torn: {one}" for one in judge_transactions(pairs.fates, read_all(bootstrap, PAIRS, 2))),
    ]


def read_load(bootstrap: str) -> Final_:
    return read_all(bootstrap, LOAD, PARTITIONS)


def value_in(anomaly: str) -> bytes | None:
    """The first value of the load that a line names."""
    named = _VALUE.search(anomaly)
    return None if named is None else named.group(1).encode()
