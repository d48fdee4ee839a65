"""What has changed between two samples of a cluster, in words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from odradek.ops.top.figures import Event
from odradek.ops.top.sampling import ClusterSample
from odradek.wording import counted

_FEW: Final = 3


def between(before: ClusterSample, now: ClusterSample) -> list[Event]:
    """Returns what happened, brokers first: they are the reason for the rest."""
    return [
        Event(now.at_ms, severity, text)
        for changes in (_brokers, _topics, _leaders, _replicas)
        for severity, text in changes(before, now)
    ]


def status_changes(
    before: Mapping[str, str], now: Mapping[str, str], at_ms: int
) -> Iterator[Event]:
    """Yields the groups whose status is another one. A group that is new has not changed."""
    for group, status in now.items():
        previous = before.get(group, status)
        if previous != status:
            severity = "good" if status == "OK" else "bad"
            yield Event(at_ms, severity, f"group {group} was {previous}, is {status}")


_Change = tuple[str, str]


def _brokers(before: ClusterSample, now: ClusterSample) -> Iterator[_Change]:
    for broker in sorted(before.brokers.keys() - now.brokers.keys()):
        yield "bad", f"broker {broker} is gone"
    for broker in sorted(now.brokers.keys() - before.brokers.keys()):
        yield "good", f"broker {broker} is there"
    if before.controller != now.controller:
        known = (
            "there is no controller" if now.controller < 0 else f"{now.controller} is controller"
        )
        yield "plain", known if now.controller < 0 else f"broker {known} now"


def _topics(before: ClusterSample, now: ClusterSample) -> Iterator[_Change]:
    gone = sorted(before.topics.keys() - now.topics.keys())
    new = sorted(now.topics.keys() - before.topics.keys())
    if new:
        yield "plain", f"{counted(len(new), 'new topic')}: {_some(new)}"
    if gone:
        yield "plain", f"{counted(len(gone), 'topic is', 'topics are')} gone: {_some(gone)}"


def _leaders(before: ClusterSample, now: ClusterSample) -> Iterator[_Change]:
    moved: dict[tuple[int, int], list[str]] = {}
    for name, index, was, leader in _pairs(before, now, "leader"):
        if was != leader:
            moved.setdefault((was, leader), []).append(f"{name}-{index}")
    for (was, leader), partitions in sorted(moved.items()):
        count = counted(len(partitions), "partition")
        if leader < 0:
            yield "bad", f"{count} of broker {was} without a leader: {_some(partitions)}"
        elif was < 0:
            yield "good", f"broker {leader} leads {count} that had no leader: {_some(partitions)}"
        else:
            yield "plain", f"broker {leader} leads {count} in place of {was}: {_some(partitions)}"


def _replicas(before: ClusterSample, now: ClusterSample) -> Iterator[_Change]:
    left: dict[int, list[str]] = {}
    joined: dict[int, list[str]] = {}
    for name, index, was, in_sync in _pairs(before, now, "in_sync"):
        for broker in set(was) - set(in_sync):
            left.setdefault(broker, []).append(f"{name}-{index}")
        for broker in set(in_sync) - set(was):
            joined.setdefault(broker, []).append(f"{name}-{index}")
    for broker, partitions in sorted(left.items()):
        count = counted(len(partitions), "partition")
        yield "bad", f"broker {broker} left the ISR of {count}: {_some(partitions)}"
    for broker, partitions in sorted(joined.items()):
        count = counted(len(partitions), "partition")
        yield "good", f"broker {broker} is in the ISR of {count} again: {_some(partitions)}"


def _pairs(
    before: ClusterSample, now: ClusterSample, name: str
) -> Iterator[tuple[str, int, Any, Any]]:
    """Yields an attribute of each partition that is in both samples, before and now."""
    for topic in now.topics.values():
        known = before.topics.get(topic.name)
        if known is None or known.id != topic.id:
            continue
        for index, partition in topic.partitions.items():
            if index in known.partitions:
                yield (
                    topic.name,
                    index,
                    getattr(known.partitions[index], name),
                    getattr(partition, name),
                )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_FEW]) + (", ..." if len(listed) > _FEW else "")
