"""AlterReplicaLogDirs: where replicas are, may be and will be made."""

from collections.abc import Awaitable, Callable
from unittest.mock import patch

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.replication.replicas import Replicas
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]


async def place(client: Client, path: str, topic: str, partition: int = 0) -> int:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
    response = await client.ask(
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]),
        AlterReplicaLogDirsResponse,
    )
    assert [result.topic_name for result in response.results] == [topic]
    (answer,) = response.results[0].partitions
    assert answer.partition_index == partition
    return answer.error_code


async def topics_by_directory(client: Client) -> dict[str, list[str]]:
    response = await client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {one.log_dir: [topic.name for topic in one.topics] for one in response.results}


@on_broker(log_dirs="/one,/two")
async def test_a_replica_that_is_to_come_is_made_where_it_was_asked_to_be(connect: Connect) -> None:
    client = await connect()
    for number in range(3):
        topic = f"t{number}"
        assert await place(client, "/two/", topic) == ErrorCode.REPLICA_NOT_AVAILABLE
        await client.create_topic(topic)
    assert await topics_by_directory(client) == {"/one": [], "/two": ["t0", "t1", "t2"]}


@on_broker(log_dirs="/one,/two")
async def test_a_replica_stays_where_it_is(connect: Connect) -> None:
    client = await connect()
    await place(client, "/two", "t")
    await client.create_topic("t")
    assert await place(client, "/two", "t") == ErrorCode.NONE
    assert await place(client, "/one", "t") == ErrorCode.UNSUPPORTED_VERSION
    assert await place(client, "/three", "t") == ErrorCode.LOG_DIR_NOT_FOUND
    assert (await topics_by_directory(client))["/two"] == ["t"]


@on_broker(log_dirs="/one,/two,/three")
async def test_all_directories_are_described_in_one_pass_over_the_partitions(
    connect: Connect,
) -> None:
    client = await connect()
    await place(client, "/two", "t")
    await client.create_topic("t")
    with patch.object(
        Replicas, "partitions", autospec=True, side_effect=Replicas.partitions
    ) as partitions:
        assert await topics_by_directory(client) == {"/one": [], "/two": ["t"], "/three": []}
    assert partitions.call_count == 1
