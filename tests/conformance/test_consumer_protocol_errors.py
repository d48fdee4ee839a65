"""The new consumer protocol request by request, against Apache Kafka: codes, epochs, records."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from tests.conformance.patience import eventually
from tests.conformance.test_group_errors import Talk, talk
from tests.conformance.topics import create_topic

Answer = ConsumerGroupHeartbeatResponse


class Members:
    """Members of one consumer group, spoken for over one connection."""

    def __init__(self, client: Talk, topic_id: TopicId) -> None:
        self.client = client
        self.topic_id = topic_id

    async def beat(self, member_id: str, epoch: int, **fields: object) -> Answer:
        owned = fields.pop("owned", None)
        if owned is not None:
            assert isinstance(owned, tuple)
            partitions = [TopicPartitions(topic_id=self.topic_id, partitions=list(owned))]
            fields["topic_partitions"] = partitions if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.client.group,
            member_id=member_id,
            member_epoch=epoch,
            **fields,  # type: ignore[arg-type]
        )
        return await self.client.ask(request, ConsumerGroupHeartbeatResponse)

    async def join(self, member_id: str, **changed: object) -> Answer:
        fields = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [self.client.topic],
            "owned": (),
            **changed,
        }
        return await self.beat(member_id, 0, **fields)

    async def code(self, member_id: str, epoch: int, **fields: object) -> int:
        return (await self.beat(member_id, epoch, **fields)).error_code

    async def catch_up(self, member_id: str, epoch: int) -> None:
        """Beats, owning nothing, until the member has the group's epoch."""
        while epoch < (await self.describe()).group_epoch:
            epoch = told(await self.beat(member_id, epoch, owned=()))[0]

    async def describe(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.client.group])
        return (await self.client.ask(request, ConsumerGroupDescribeResponse)).groups[0]

    async def fetch(self, member_id: str | None, epoch: int) -> int:
        group = OffsetFetchRequestGroup(
            group_id=self.client.group, member_id=member_id, member_epoch=epoch, topics=None
        )
        request = OffsetFetchRequest(groups=[group])
        return (await self.client.ask(request, OffsetFetchResponse, 9)).groups[0].error_code


def told(answer: Answer) -> tuple[int, list[int] | None]:
    """The epoch, and the partitions where the answer lists them."""
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    if answer.assignment is None:
        return answer.member_epoch, None
    topics = answer.assignment.topic_partitions
    return answer.member_epoch, sorted(each for topic in topics for each in topic.partitions)


@asynccontextmanager
async def members_of(broker: BrokerProcess, partitions: int = 2) -> AsyncIterator[Members]:
    async with talk(broker) as client:
        client.topic = create_topic(broker, partitions)
        ask = MetadataRequest(topics=[MetadataRequestTopic(name=client.topic)])
        (topic,) = (await client.ask(ask, MetadataResponse)).topics
        assert topic.topic_id != NO_TOPIC_ID
        # A coordinator may learn of a topic later than others: a first group waits for that.
        group = client.group
        client.group = f"{group}-first"
        members = Members(client, topic.topic_id)
        epoch, given = told(await members.join("m"))
        while not given:
            epoch, given = told(await members.beat("m", epoch))
        await members.beat("m", -1)
        client.group = group
        yield members


async def test_requests_that_make_no_sense(any_broker: BrokerProcess) -> None:
    async with members_of(any_broker) as group:
        invalid = ErrorCode.INVALID_REQUEST
        for changed in (
            {"rebalance_timeout_ms": -1},
            {"owned": None},
            {"owned": (0,)},
            {"subscribed_topic_names": None},
            {"instance_id": ""},
            {"rack_id": ""},
        ):
            assert (await group.join("m", **changed)).error_code == invalid, changed
        assert (await group.join("")).error_code == invalid
        assert await group.code("m", -2) == invalid
        assert await group.code("m", -3) == invalid
        wrong = await group.join("m", server_assignor="best")
        assert wrong.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        wrong = await group.join("m", subscribed_topic_names=None, subscribed_topic_regex="(")
        assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_unknown_and_fenced(any_broker: BrokerProcess) -> None:
    async with members_of(any_broker) as group:
        assert await group.code("m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
        assert await group.code("m", -1) == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await group.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert told(await group.join("m")) == (2, [0, 1])
        assert told(await group.join("m")) == (2, [0, 1])
        assert await group.code("n", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await group.code("n", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await group.code("m", 3) == ErrorCode.FENCED_MEMBER_EPOCH
        assert told(await group.beat("m", 2)) == (2, None)
        everything = {"rebalance_timeout_ms": 60_000, "owned": (0, 1)}
        names = {"subscribed_topic_names": [group.client.topic]}
        assert told(await group.beat("m", 2, **everything, **names)) == (2, [0, 1])
        left = await group.beat("m", -1)
        assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -1)
        assert (left.heartbeat_interval_ms, left.assignment) == (0, None)


async def test_a_partition_changes_hands(any_broker: BrokerProcess) -> None:
    async with members_of(any_broker) as group:
        assert told(await group.join("one")) == (2, [0, 1])
        first = told(await group.join("two"))
        assert first[1] == []
        # Kafka may let a second pass between two assignments; until then the target is the old.
        await group.catch_up("two", first[0])
        shown = await group.describe()
        assert (shown.group_state, shown.group_epoch) == ("Reconciling", 3)
        epoch, kept = told(await group.beat("one", 2, owned=(0, 1)))
        assert epoch == 2
        assert kept in ([0], [1])
        (other,) = {0, 1} - set(kept)
        assert told(await group.beat("two", 3, owned=())) == (3, None)
        assert told(await group.beat("one", 2, owned=(0, 1))) == (2, None)
        assert told(await group.beat("one", 2, owned=tuple(kept))) == (3, None)
        assert told(await group.beat("two", 3, owned=())) == (3, [other])
        shown = await group.describe()
        assert (shown.group_state, shown.assignment_epoch) == ("Stable", 3)
        assert shown.assignor_name == "uniform"
        assert {each.member_type for each in shown.members} == {1}
        owner, loser = ("one", "two") if kept == [0] else ("two", "one")
        await check_offsets(group, owner, loser)
        classic = await group.client.describe()
        assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert classic.error_message == f"Group {group.client.group} is not a classic group."


async def check_offsets(group: Members, owner: str, loser: str) -> None:
    """Both members are at epoch 3; `owner` has partition 0."""
    commit = group.client.commit
    assert await commit(owner, 3) == ErrorCode.NONE
    assert await commit(owner, 4) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(loser, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("three", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(owner, 3, version=8) == ErrorCode.UNSUPPORTED_VERSION
    if owner == "one":
        assert await commit(owner, 2) == ErrorCode.NONE  # It had it in epoch 2 already.
    assert await group.fetch("one", 3) == ErrorCode.NONE
    assert await group.fetch("one", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await group.fetch("three", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await group.fetch(None, -1) == ErrorCode.NONE


async def test_static_members(any_broker: BrokerProcess) -> None:
    async with members_of(any_broker) as group:
        assert told(await group.join("one", instance_id="i")) == (2, [0, 1])
        taken = await group.join("two", instance_id="i")
        assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        left = await group.beat("one", -2, instance_id="i")
        assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -2)
        assert told(await group.join("two", instance_id="i")) == (2, [0, 1])
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert await group.code("one", 2, instance_id="i") == fenced
        assert await group.code("one", -1, instance_id="i") == fenced
        assert await group.code("two", 2, instance_id="j") == ErrorCode.UNKNOWN_MEMBER_ID


_OF_THE_RUN = (
    (r"g-[0-9a-f]{12}", "GROUP"),
    (r"t-[0-9a-f]{12}", "TOPIC"),
    (r'("(?:commitTimestamp|assignmentTimestamp)":)\d+', r"\1TIME"),
    (r'("metadataHash":)-?\d+', r"\1HASH"),
    (r'"topicId":"[^"]*"', '"topicId":"ID"'),
)


def payloads(kafka: ApacheKafka, directory: Path, group: str) -> list[str]:
    """The keys and values about a group as Apache Kafka's tool shows them, in their order."""
    files = [each for each in directory.glob("__consumer_offsets-*/*.log") if each.stat().st_size]
    named = ",".join(str(each) for each in files)
    shown = kafka.run_tool("dump-log", "--offsets-decoder", "--files", named)
    found = []
    for line in shown.splitlines():
        at = line.find(" key: ")
        if at >= 0 and f'"{group}"' in line:
            text = line[at:]
            for pattern, replacement in _OF_THE_RUN:
                text = re.sub(pattern, replacement, text)
            found.append(text.strip())
    return found


async def test_kafka_reads_our_records_as_it_reads_its_own(
    any_broker: BrokerProcess, kafka_home: ApacheKafka
) -> None:
    async with members_of(any_broker) as group:
        await group.join("one", instance_id="i", rack_id="r", server_assignor="range")
        await group.beat("one", -2, instance_id="i")
        await group.join("two", instance_id="i")
        await group.beat("two", -1, instance_id="i")
    name = group.client.group
    eventually(
        lambda: payloads(kafka_home, any_broker.data_directory, name),
        lambda found: found == EXPECTED,
    )


def _key(kind: int, member: str = "") -> str:
    part = f',"memberId":"{member}"' if member else ""
    return f'key: {{"type":"{kind}","data":{{"groupId":"GROUP"{part}}}}} payload: '


def _value(data: str) -> str:
    return f'{{"version":"0","data":{{{data}}}}}'


_PROFILE = _value(
    '"instanceId":"i","rackId":"r","clientId":"conformance","clientHost":"/127.0.0.1",'
    '"subscribedTopicNames":["TOPIC"],"subscribedTopicRegex":"","rebalanceTimeoutMs":60000,'
    '"serverAssignor":"range","classicMemberMetadata":null'
)
_TARGET = _value('"topicPartitions":[{"topicId":"ID","partitions":[0,1]}]')


def _place(epoch: int, since: int) -> str:
    return _value(
        f'"memberEpoch":{epoch},"previousMemberEpoch":0,"state":0,"assignedPartitions":'
        f'[{{"topicId":"ID","partitions":[0,1],"assignmentEpochs":[{since},{since}]}}],'
        '"partitionsPendingRevocation":[]'
    )


def _gone(member: str) -> list[str]:
    return [_key(kind, member) + "<DELETE>" for kind in (8, 7, 5)]


EXPECTED = [
    _key(5, "one") + _PROFILE,
    _key(3) + _value('"epoch":2,"metadataHash":HASH'),
    _key(7, "one") + _TARGET,
    _key(6) + _value('"assignmentEpoch":2,"assignmentTimestamp":TIME'),
    _key(8, "one") + _place(2, 2),
    _key(8, "one") + _place(-2, 0),
    *_gone("one"),
    _key(5, "two") + _PROFILE,
    _key(7, "two") + _TARGET,
    _key(8, "two") + _place(0, 0),
    _key(8, "two") + _place(2, 0),
    *_gone("two"),
    _key(3) + _value('"epoch":3'),
]
