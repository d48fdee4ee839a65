"""Groups and transactional ids that this broker coordinates, and how far the groups lag behind."""

from collections import Counter
from collections.abc import Generator, Sized
from typing import TYPE_CHECKING

from odradek.broker.management.sources import Sources
from odradek.protocol.api_error import ApiError
from odradek.protocol.types import Offset
from odradek.telemetry.catalogue import cluster as metrics
from odradek.telemetry.catalogue import exporter
from odradek.telemetry.declarations import Collected

if TYPE_CHECKING:
    from odradek.groups.machine import GroupMachine


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    services = sources.components.services
    try:
        machines = list(services.groups.machines())
        transactions = list(services.transactions.machines())
    except ApiError:
        machines, transactions = [], []  # Without its lease this broker coordinates nothing.
    into.add(metrics.TRANSACTIONAL_IDS, sum(len(one.transactions) for one in transactions))
    states: Counter[tuple[str, str]] = Counter()
    groups = offsets = 0
    for machine in machines:
        for group_id, group in list(machine.groups.items()):
            yield
            groups += 1
            listing = group.listing()
            states[listing.type, listing.state] += 1
            members = getattr(group, "members", ())
            assert isinstance(members, Sized)
            into.add(exporter.GROUP_MEMBERS, len(members), group_id)
        for group_id in list(machine.offsets.committed):
            offsets += len(machine.offsets.of(group_id))
            yield from _collect_offsets(sources, into, machine, group_id)
    into.add(metrics.GROUPS, groups)
    into.add(metrics.GROUP_OFFSETS, offsets)
    for (protocol, state), count in states.items():
        into.add(metrics.GROUPS_BY_STATE, count, protocol, state)


def _collect_offsets(
    sources: Sources, into: Collected, machine: "GroupMachine", group_id: str
) -> Generator[None, None, None]:
    """Adds the offsets and lags of one group. Of a partition whose leader did not answer, the lag
    is not known and is left out."""
    now_ms = sources.clock.now_ms()
    offset_sums: Counter[str] = Counter()
    lag_sums: dict[str, int] = {}
    max_age_s: float | None = None
    for partition, committed in list(machine.offsets.of(group_id).items()):
        yield
        topic, labels = partition.topic, (group_id, partition.topic, str(partition.partition))
        has_series = len(into.rows(exporter.GROUP_OFFSET)) < sources.max_partitions
        offset_sums[topic] += committed.offset
        if has_series:
            into.add(exporter.GROUP_OFFSET, committed.offset, *labels)
        backlog = sources.lag.backlog(group_id, partition, Offset(committed.offset), now_ms)
        if backlog is None:
            continue
        lag_sums[topic] = lag_sums.get(topic, 0) + backlog.records
        if has_series:
            into.add(exporter.GROUP_LAG, backlog.records, *labels)
        if backlog.age_s is not None:
            max_age_s = max(max_age_s or 0.0, backlog.age_s)
            if has_series:
                into.add(exporter.GROUP_LAG_SECONDS, backlog.age_s, *labels)
    for topic, offset_sum in offset_sums.items():
        into.add(exporter.GROUP_OFFSET_SUM, offset_sum, group_id, topic)
    for topic, lag_sum in lag_sums.items():
        into.add(exporter.GROUP_LAG_SUM, lag_sum, group_id, topic)
    if max_age_s is not None:
        into.add(exporter.GROUP_MAX_LAG_SECONDS, max_age_s, group_id)
