"""The admin client against Odradek's broker and Apache Kafka's."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from benchmarks.broker_process import BrokerProcess
from odradek.client import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigType,
    KafkaError,
    NewPartitions,
    NewTopic,
    Producer,
    TopicPartition,
)
from odradek.client.api_versions import ApiVersions
from odradek.client.leader_requests import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from odradek.protocol.errors import ErrorCode
from tests.conformance.own_client import T, run
from tests.conformance.topics import KEEP_OLD_RECORDS, create_topic, new_topic_name


async def settled(ask: Callable[[], Coroutine[Any, Any, T]], is_right: Callable[[T], bool]) -> T:
    """Asks until the answer is right: brokers carry out changes before they all show them."""
    answer = await ask()
    for _ in range(100):
        if is_right(answer):
            break
        await asyncio.sleep(0.05)
        answer = await ask()
    assert is_right(answer), answer
    return answer


async def expect(work: Coroutine[Any, Any, T], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        await work
    assert raised.value.code is code


def test_topics_are_made_described_and_deleted(any_broker: BrokerProcess) -> None:
    name, other = new_topic_name(), new_topic_name()

    async def work() -> None:
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            made = await admin.create_topics(
                [
                    NewTopic(name, 3, 1, configs={"retention.ms": "1000"}),
                    NewTopic(other, assignments={0: [1], 1: [1]}),
                    NewTopic("bad name", 1),
                ]
            )
            assert not isinstance(made[name], KafkaError)
            assert not isinstance(made[other], KafkaError)
            bad = made["bad name"]
            assert isinstance(bad, KafkaError)
            assert bad.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            await expect(admin.create_topic(name, 3), ErrorCode.TOPIC_ALREADY_EXISTS)
            topics = await settled(admin.list_topics, lambda topics: {name, other} <= topics.keys())
            assert topics[name].all_partitions == (0, 1, 2)
            assert topics[other].all_partitions == (0, 1)
            answers = await admin.describe_topics([name, "nowhere"])
            assert isinstance(answers["nowhere"], KafkaError)
            described = answers[name]
            assert not isinstance(described, KafkaError)
            assert described.partitions[0].replicas == (1,)
            assert described.id != bytes(16)
            grown = await admin.create_partitions({name: 5, other: NewPartitions(3, [[1]])})
            assert grown == {name: None, other: None}
            shrunk = (await admin.create_partitions({name: 2}))[name]
            assert shrunk is not None
            assert shrunk.code is ErrorCode.INVALID_PARTITIONS
            wanted = {(name, index) for index in range(5)} | {(other, index) for index in range(3)}

            async def pages() -> list[tuple[str | None, list[int]]]:
                return [
                    (page.name, [one.partition_index for one in page.partitions])
                    async for page in admin.describe_topic_partitions(
                        [name, other], page_partitions=3
                    )
                ]

            found = await settled(
                pages, lambda found: {(t, index) for t, page in found for index in page} == wanted
            )
            assert max(len(page) for _, page in found) <= 3
            assert await admin.delete_topics([other]) == {other: None}
            assert await admin.delete_topics_by_id([described.id]) == {described.id: None}
            await expect(admin.delete_topic("nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    run(work())


def test_validation_alone_makes_nothing(any_broker: BrokerProcess) -> None:
    name = new_topic_name()

    async def work() -> None:
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            made = await admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
            assert not isinstance(made[name], KafkaError)
            assert name not in await admin.list_topics()

    run(work())


def test_settings_of_topics_and_brokers(any_broker: BrokerProcess) -> None:
    topic = ConfigResource(ConfigType.TOPIC, create_topic(any_broker))
    broker = ConfigResource(ConfigType.BROKER, "1")

    async def shows(admin: Admin, name: str, value: str, *, is_default: bool) -> None:
        async def ask() -> tuple[set[str], bool]:
            answer = (await admin.describe_configs([topic], [name]))[topic]
            assert not isinstance(answer, KafkaError)
            return set(str(answer[name].value).split(",")), answer[name].is_default

        await settled(ask, lambda found: found == (set(value.split(",")), is_default))

    async def work() -> None:
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            await shows(admin, "retention.ms", "604800000", is_default=True)
            change = ConfigChange("retention.ms", "5000")
            assert await admin.incremental_alter_configs({topic: [change]}) == {topic: None}
            await shows(admin, "retention.ms", "5000", is_default=False)
            more = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
            assert await admin.incremental_alter_configs({topic: [more]}) == {topic: None}
            await shows(admin, "cleanup.policy", "compact,delete", is_default=False)
            undo = ConfigChange("retention.ms", operation=ConfigOperation.DELETE)
            assert await admin.incremental_alter_configs({topic: [undo]}) == {topic: None}
            await shows(admin, "retention.ms", "604800000", is_default=True)
            assert await admin.alter_configs({topic: {"segment.bytes": "2000000"}}) == {topic: None}
            await shows(admin, "segment.bytes", "2000000", is_default=False)
            await shows(admin, "cleanup.policy", "delete", is_default=True)
            wrong = ConfigChange("retention.ms", "soon")
            refused = (await admin.incremental_alter_configs({topic: [wrong]}))[topic]
            assert refused is not None
            assert refused.code is ErrorCode.INVALID_CONFIG
            answers = await admin.describe_configs(
                [broker, topic], include_synonyms=True, include_documentation=True
            )
            described = answers[broker]
            assert not isinstance(described, KafkaError)
            assert described["log.dirs"].is_read_only
            assert topic in await admin.list_config_resources([ConfigType.TOPIC])

    run(work())


def test_offsets_and_records_of_a_log(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config=KEEP_OLD_RECORDS)
    partition, missing = TopicPartition(topic, 0), TopicPartition(topic, 9)

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            for number in range(20):
                await producer.send(topic, b"v", timestamp_ms=1_000 + (number * 7) % 20)
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:

            async def listed(timestamp: int) -> ListedOffset:
                answer = (await admin.list_offsets({partition: timestamp}))[partition]
                assert not isinstance(answer, KafkaError)
                return answer

            assert (await listed(EARLIEST)).offset == 0
            assert (await listed(LATEST)).offset == 20
            assert await listed(MAX_TIMESTAMP) == (17, 1_019, 0)
            assert (await listed(9_999)).offset == -1
            assert await admin.delete_records({partition: 5}) == {partition: 5}
            assert (await listed(EARLIEST)).offset == 5
            answers = await admin.delete_records({partition: -1, missing: 0})
            assert answers[partition] == 20
            refused = answers[missing]
            assert isinstance(refused, KafkaError)
            assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers = await admin.delete_records({partition: 99})
            refused = answers[partition]
            assert isinstance(refused, KafkaError)
            assert refused.code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(work())


def test_brokers_and_their_directories(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, partitions=2)

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b"x" * 1_000, partition=1)
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            cluster = await admin.describe_cluster()
            assert [broker.id for broker in cluster.brokers] == [1]
            host, port = any_broker.bootstrap.rsplit(":", 1)
            assert (cluster.brokers[0].host, cluster.brokers[0].port) == (host, int(port))
            assert cluster.cluster_id

            async def sizes_of_logs() -> dict[TopicPartition, int]:
                directories = await admin.describe_log_dirs()
                return {
                    partition: replica.size_bytes
                    for directory in directories[cluster.brokers[0].id]
                    for partition, replica in directory.replicas.items()
                    if partition.topic == topic
                }

            # A broker may make the log of a partition a moment after that of another one.
            sizes = await settled(sizes_of_logs, lambda found: len(found) == 2)
            assert sizes[TopicPartition(topic, 0)] == 0
            assert sizes[TopicPartition(topic, 1)] > 1_000
            versions = (await admin.api_versions())[cluster.brokers[0].id]
            assert isinstance(versions, dict)
            check_versions(versions)

    def check_versions(versions: ApiVersions) -> None:
        assert versions[3][1] >= 13
        assert versions[18][1] >= 4

    run(work())
