"""Version 3: consumer groups, their members and assignments, and how far they are behind."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.group_types import GroupDescription, GroupMember
from odradek.client.leader_requests import LATEST, list_offsets
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.rest.links import Json, Links
from odradek.rest.v3.resources import (
    CLUSTER,
    NOT_FOUND,
    OK,
    SERVER,
    ResourceRequest,
    Resources,
    is_unknown,
    missing,
)
from odradek.web.endpoints import Endpoint
from odradek.web.problems import json_response

_GROUPS: Final = f"{CLUSTER}/consumer-groups"
_GROUP: Final = f"{_GROUPS}/{{consumer_group_id}}"
_MEMBER: Final = f"{_GROUP}/consumers/{{consumer_id}}"
_PARTITION: Final = "{topic_name}/partitions/{partition_id:int}"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in a partition, and who reads it."""

    partition: TopicPartition
    current: int
    end: int
    member: GroupMember | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.current)


class Groups(Resources):
    def endpoints(self) -> list[Endpoint]:
        answers = {**OK, **NOT_FOUND, **SERVER}
        handler = Callable[[Request], Awaitable[Response]]

        def get(path: str, answer: handler, summary: str) -> Endpoint:
            return Endpoint("GET", path, answer, summary, responses=answers)

        return [
            get(_GROUPS, self._list, "Consumer groups."),
            get(_GROUP, self._get, "A consumer group."),
            get(f"{_GROUP}/consumers", self._members, "The members of a group."),
            get(_MEMBER, self._member, "A member of a group."),
            get(f"{_MEMBER}/assignments", self._assignments, "What a member reads."),
            get(
                f"{_MEMBER}/assignments/{_PARTITION}",
                self._assignment,
                "One of them.",
            ),
            get(f"{_GROUP}/lag-summary", self._summary, "How far a group is behind at most."),
            get(f"{_GROUP}/lags", self._lags, "How far a group is behind, by partition."),
            get(f"{_GROUP}/lags/{_PARTITION}", self._lag, "How far it is behind in a partition."),
        ]

    async def _list(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            listed = [group for group in await asked.admin.list_groups() if group.is_of_consumers]
            described = await asked.admin.describe_groups([group.group_id for group in listed])
            data = [
                group_json(asked.links, group)
                for group in described.values()
                if not isinstance(group, KafkaError)
            ]
            return json_response(
                asked.links.collection("ConsumerGroup", ("consumer-groups",), data)
            )

    async def _get(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            return json_response(group_json(asked.links, await _group(asked)))

    async def _members(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group = await _group(asked)
            data = [member_json(asked.links, group.group_id, member) for member in group.members]
            segments = ("consumer-groups", group.group_id, "consumers")
            return json_response(asked.links.collection("Consumer", segments, data))

    async def _member(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group, member = await _group_and_member(asked)
            return json_response(member_json(asked.links, group.group_id, member))

    async def _assignments(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group, member = await _group_and_member(asked)
            data = [
                assignment_json(asked.links, group.group_id, member.member_id, partition)
                for partition in member.assignment
            ]
            segments = (
                "consumer-groups", group.group_id, "consumers", member.member_id, "assignments",
            )  # fmt: skip
            return json_response(asked.links.collection("ConsumerAssignment", segments, data))

    async def _assignment(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group, member = await _group_and_member(asked)
            partition = _partition(asked)
            if partition not in member.assignment:
                raise missing(f"{member.member_id} does not read {partition}")
            return json_response(
                assignment_json(asked.links, group.group_id, member.member_id, partition)
            )

    async def _lags(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group = await _group(asked)
            lags = await _lags_of_one(asked, group)
            lags.sort(key=lambda lag: -lag.lag)
            data = [lag_json(asked.links, group.group_id, lag) for lag in lags]
            segments = ("consumer-groups", group.group_id, "lags")
            return json_response(asked.links.collection("ConsumerLag", segments, data))

    async def _lag(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group = await _group(asked)
            partition = _partition(asked)
            for lag in await lags_of(asked, group):
                if lag.partition == partition:
                    return json_response(lag_json(asked.links, group.group_id, lag))
            raise missing(f"group {group.group_id} has committed no offset of {partition}")

    async def _summary(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            group = await _group(asked)
            lags = await _lags_of_one(asked, group)
            return json_response(summary_json(asked.links, group.group_id, lags))


def _partition(asked: ResourceRequest) -> TopicPartition:
    return TopicPartition(asked.path["topic_name"], asked.path["partition_id"])


async def _group(asked: ResourceRequest) -> GroupDescription:
    name = asked.path["consumer_group_id"]
    found = (await asked.admin.describe_groups([name]))[name]
    if is_unknown(found) or (isinstance(found, GroupDescription) and found.state == "Dead"):
        raise missing(f"there is no consumer group {name}")
    if isinstance(found, KafkaError):
        raise found
    return found


async def _group_and_member(asked: ResourceRequest) -> tuple[GroupDescription, GroupMember]:
    group = await _group(asked)
    for member in group.members:
        if member.member_id == asked.path["consumer_id"]:
            return group, member
    raise missing(f"group {group.group_id} has no member {asked.path['consumer_id']}")


async def _lags_of_one(asked: ResourceRequest, group: GroupDescription) -> list[Lag]:
    """Returns the lags of a group; raises 404 if it has committed no offsets."""
    lags = await lags_of(asked, group)
    if not lags:
        raise missing(f"group {group.group_id} has committed no offsets")
    return lags


async def lags_of(asked: ResourceRequest, group: GroupDescription) -> list[Lag]:
    """Returns the lag in each partition of which the group has committed an offset."""
    offsets = await asked.admin.list_group_offsets(group.group_id)
    committed = {
        partition: offset.offset
        for partition, offset in offsets.items()
        if not isinstance(offset, KafkaError) and offset.offset >= 0
    }
    ends = await list_offsets(
        asked.admin.cluster,
        dict.fromkeys(committed, LATEST),
        timeout_ms=asked.admin.settings.default_api_timeout_ms,
    )
    readers = {partition: member for member in group.members for partition in member.assignment}
    found = []
    for partition, current in sorted(committed.items()):
        end = ends[partition]
        # A topic that was deleted, or that the caller may not see, has no end.
        if not isinstance(end, KafkaError):
            found.append(Lag(partition, current, end.offset, readers.get(partition)))
    return found


def state_name(state: str) -> str:
    """Returns a state as Java's enum names it: PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper() or "UNKNOWN"


def group_json(links: Links, group: GroupDescription) -> Json:
    path = ("consumer-groups", group.group_id)
    return links.resource(
        "ConsumerGroup", path, {"consumer-group": group.group_id},
        consumer_group_id=group.group_id,
        is_simple=group.protocol_type == "" and group.type.lower() in {"", "classic"},
        partition_assignor=group.assignor, state=state_name(group.state),
        type=(group.type or "Classic").upper(), is_mixed_consumer_group=False,
        coordinator=links.related("brokers", group.coordinator.id),
        consumers=links.related(*path, "consumers"),
        lag_summary=links.related(*path, "lag-summary"),
    )  # fmt: skip


def member_json(links: Links, group_id: str, member: GroupMember) -> Json:
    path = ("consumer-groups", group_id, "consumers", member.member_id)
    return links.resource(
        "Consumer", path, {"consumer-group": group_id, "consumer": member.member_id},
        consumer_group_id=group_id, consumer_id=member.member_id,
        instance_id=member.group_instance_id, client_id=member.client_id,
        assignments=links.related(*path, "assignments"),
    )  # fmt: skip


def assignment_json(links: Links, group_id: str, member_id: str, at: TopicPartition) -> Json:
    topic, index = at
    group = ("consumer-groups", group_id)
    return links.resource(
        "ConsumerAssignment",
        (*group, "consumers", member_id, "assignments", topic, "partitions", index),
        {
            "consumer-group": group_id, "consumer": member_id, "assignment": topic,
            "partition": index,
        },
        consumer_group_id=group_id, consumer_id=member_id, topic_name=topic, partition_id=index,
        partition=links.related("topics", topic, "partitions", index),
        lag=links.related(*group, "lags", topic, "partitions", index),
    )  # fmt: skip


def lag_json(links: Links, group_id: str, lag: Lag) -> Json:
    topic, index = lag.partition
    member = lag.member
    return links.resource(
        "ConsumerLag", ("consumer-groups", group_id, "lags", topic, "partitions", index),
        {"consumer-group": group_id, "lag": topic, "partition": index},
        consumer_group_id=group_id, topic_name=topic, partition_id=index,
        current_offset=lag.current, log_end_offset=lag.end, lag=lag.lag,
        consumer_id="" if member is None else member.member_id,
        instance_id=None if member is None else member.group_instance_id,
        client_id="" if member is None else member.client_id,
    )  # fmt: skip


def summary_json(links: Links, group_id: str, lags: list[Lag]) -> Json:
    most = max(lags, key=lambda lag: lag.lag)
    topic, index = most.partition
    member = most.member
    member_id = "" if member is None else member.member_id
    group = ("consumer-groups", group_id)
    return links.resource(
        "ConsumerGroupLagSummary", (*group, "lag-summary"),
        {"consumer-group": group_id, "lag-summary": None},
        consumer_group_id=group_id, max_lag_consumer_id=member_id,
        max_lag_instance_id=None if member is None else member.group_instance_id,
        max_lag_client_id="" if member is None else member.client_id,
        max_lag_topic_name=topic, max_lag_partition_id=index, max_lag=most.lag,
        total_lag=sum(lag.lag for lag in lags),
        max_lag_consumer=links.related(*group, "consumers", member_id),
        max_lag_partition=links.related("topics", topic, "partitions", index),
    )  # fmt: skip
