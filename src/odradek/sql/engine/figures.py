"""Figures for DESCRIBE ... EXTENDED and SHOW TOPICS EXTENDED: rows, offsets, consumers."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.client.admin.group_types import GroupOffset
from odradek.client.leader_requests import EARLIEST
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.sql.engine.entities import Entity
from odradek.sql.engine.placing import AnyRunner
from odradek.sql.engine.topics import end_offsets


async def offsets_of_query(admin: Admin, group: str, topics: Iterable[str]) -> Entity:
    """Returns how far a query has read its topics, and where these begin and end."""
    ends = await end_offsets(admin, topics)
    partitions = [
        TopicPartition(topic, number) for topic, found in ends.items()
        for number in range(len(found))
    ]  # fmt: skip
    begins = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    committed = await admin.list_group_offsets(group)
    summaries = []
    for topic, found in ends.items():
        offsets = []
        for number, end in enumerate(found):
            partition = TopicPartition(topic, number)
            begin, read = begins[partition], committed.get(partition)
            offsets.append({
                "partition": number,
                "logStartOffset": 0 if isinstance(begin, KafkaError) else int(begin.offset),
                "logEndOffset": end,
                "consumerOffset": int(read.offset) if isinstance(read, GroupOffset) else 0,
            })  # fmt: skip
        summaries.append({"kafkaTopic": topic, "offsets": offsets})
    return {"groupId": group, "topicSummaries": summaries}


def statistics(writers: Iterable[AnyRunner], readers: Iterable[AnyRunner]) -> tuple[str, str]:
    """Returns what the queries of this server have read, written and skipped since they began, as
    two texts: messages, and errors."""
    written = sum(runner.figures.results for runner in writers)
    figures = [runner.figures for runner in readers]
    read = sum(figure.records for figure in figures)
    failed = sum(figure.bad_records for figure in figures)
    parts = []
    if written:
        parts.append(f"total-messages: {written:>9}")
    if read:
        parts.append(f"consumer-total-messages: {read:>9}")
    return "     ".join(parts), f"consumer-failed-messages: {failed:>9}" if failed else ""


async def consumers_by_topic(admin: Admin) -> tuple[Counter[str], Counter[str]]:
    """Returns how many consumers read each topic, and how many groups."""
    groups = [group.group_id for group in await admin.list_groups()]
    described: dict[str, Any] = dict(await admin.describe_groups(groups)) if groups else {}
    consumers: Counter[str] = Counter()
    of_groups: Counter[str] = Counter()
    for group in described.values():
        if isinstance(group, KafkaError):
            continue
        topics = [{partition.topic for partition in member.assignment} for member in group.members]
        consumers.update(topic for of_member in topics for topic in of_member)
        of_groups.update(set().union(*topics))
    return consumers, of_groups
