"""Attacks of clients that have logged in and may do a little. docs/threats.md lists all threats,
with the test of each; these are the ones that belong to no other module."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

import odradek
from odradek.protocol.acls import Operation, Permission, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterableConfig as ReplacedConfig,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsResource as ReplacedResource,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import BrokerId, Offset
from tests.unit.broker.harness import Client, batch, on_broker
from tests.unit.broker.test_acls import STANDARD, Connect, create, rule

LENIENT: Final = {"authorizer_class_name": STANDARD, "allow_everyone_if_no_acl_found": "true"}
_SOURCE: Final = Path(odradek.__file__).parent
_SET: Final = 0


def transactional_batch() -> bytes:
    builder = BatchBuilder()
    builder.append(None, b"x", (), 1_700_000_000_000)
    return bytes(builder.build(0, 1, 0, 0, is_transactional=True))


async def sent(client: Client, records: bytes, transactional_id: str | None = None) -> int:
    data = PartitionProduceData(index=0, records=records)
    response = await client.ask(
        ProduceRequest(
            acks=1,
            transactional_id=transactional_id,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        ),
        ProduceResponse,
        version=12,
    )
    return response.responses[0].partition_responses[0].error_code


async def records_in(client: Client) -> int:
    """Returns the log end offset of the topic."""
    asked = FetchPartition(partition=0, fetch_offset=Offset(0), partition_max_bytes=1)
    response = await client.ask(
        FetchRequest(topics=[FetchTopic(topic="t", partitions=[asked])]), FetchResponse, version=11
    )
    return response.responses[0].partitions[0].high_watermark


@on_broker(**LENIENT)
async def test_a_batch_of_a_transaction_needs_the_transactional_id(connect: Connect) -> None:
    """The header of a batch says that it belongs to a transaction. A request that leaves out the
    id, or hides such a batch behind another one, writes nothing."""
    client = await connect()
    await client.create_topic("t")
    denied = rule(
        ResourceType.TRANSACTIONAL_ID, "billing", Operation.WRITE, permission=Permission.DENY
    )
    await create(client, denied)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await sent(client, transactional_batch()) == refused
    assert await sent(client, transactional_batch(), "billing") == refused
    hidden = bytes(batch(b"plain")) + transactional_batch()
    assert await sent(client, hidden) != ErrorCode.NONE
    assert await records_in(client) == 0


@pytest.mark.parametrize("version", [11, 15])
@on_broker(**LENIENT)
async def test_a_consumer_cannot_pass_for_a_replica(connect: Connect, version: int) -> None:
    """Or it could make an ISR believe that records are copied."""
    client = await connect()
    await client.create_topic("t")
    denied = rule(
        ResourceType.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION, permission=Permission.DENY
    )
    await create(client, denied)
    asked = FetchPartition(partition=0, fetch_offset=Offset(1 << 40), partition_max_bytes=1)
    request = FetchRequest(
        replica_id=BrokerId(1), topics=[FetchTopic(topic="t", partitions=[asked])]
    )
    if version >= 15:
        described = await client.ask(MetadataRequest(topics=None), MetadataResponse)
        (topic,) = (one for one in described.topics if one.name == "t")
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=BrokerId(1)),
            topics=[FetchTopic(topic_id=topic.topic_id, partitions=[asked])],
        )
    response = await client.ask(request, FetchResponse, version=version)
    (answered,) = response.responses[0].partitions
    assert answered.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not answered.records


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "sasl.server.callback.handler.class",
        "listener.name.plaintext.plain.sasl.server.callback.handler.class",
        "sasl.oauthbearer.jwks.endpoint.url",
        "log.dirs",
        "odradek.audit.sink",
        "zookeeper.connect",
    ],
)
@on_broker()
async def test_no_client_chooses_a_class_a_file_or_a_url(connect: Connect, name: str) -> None:
    """Not even one that may change settings. Certificates are an exception, as in Kafka: the paths
    of keystores may be changed by whoever may alter the cluster."""
    client = await connect()
    config = AlterableConfig(name=name, config_operation=_SET, value="evil:Class")
    for resource in ("", "1"):
        response = await client.ask(
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=4, resource_name=resource, configs=[config])
                ]
            ),
            IncrementalAlterConfigsResponse,
        )
        assert response.responses[0].error_code in {
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
        }


_DEAD_LETTERS: Final = "odradek.schema.validation.dead.letter.topic"


@on_broker(**LENIENT)
async def test_dead_letters_go_only_where_who_says_so_may_write(connect: Connect) -> None:
    """Brokers write dead letters as themselves, so whoever owns any topic could write to every
    topic by a setting of its own."""
    client = await connect()
    for name in ("t", "ledger"):
        await client.create_topic(name)
    may_not = rule(ResourceType.TOPIC, "ledger", Operation.WRITE, permission=Permission.DENY)
    await create(client, may_not)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def set_to(name: str) -> int:
        config = AlterableConfig(name=_DEAD_LETTERS, config_operation=_SET, value=name)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await client.ask(request, IncrementalAlterConfigsResponse)
        return response.responses[0].error_code

    assert await set_to("ledger") == refused
    replaced = await client.ask(
        AlterConfigsRequest(
            resources=[
                ReplacedResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[ReplacedConfig(name=_DEAD_LETTERS, value="ledger")],
                )
            ]
        ),
        AlterConfigsResponse,
    )
    assert replaced.responses[0].error_code == refused
    created = await client.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="u",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=_DEAD_LETTERS, value="ledger")],
                )
            ]
        ),
        CreateTopicsResponse,
    )
    assert created.topics[0].error_code == refused
    assert await set_to("mine") == ErrorCode.NONE


# Names of values that an attacker could guess byte by byte if the time of a comparison told how
# many are right.
_SECRET: Final = frozenset({"password", "proof", "stored_key", "server_key", "nonce", "hmac"})


def secret_comparisons(source: str) -> list[int]:
    """Returns the lines that compare a secret with == or !=."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
            continue
        for side in (node.left, *node.comparators):
            name = side.id if isinstance(side, ast.Name) else getattr(side, "attr", "")
            if name.lstrip("_") in _SECRET:
                found.append(node.lineno)
    return found


def test_secrets_are_compared_in_constant_time() -> None:
    assert secret_comparisons("if given == known.password: pass") == [1]
    assert secret_comparisons("if hmac.compare_digest(password, known): pass") == []
    rooms = [*(_SOURCE / "security" / "sasl" / "server").glob("*.py"), _SOURCE / "web" / "login.py"]
    assert len(rooms) > 5
    for path in rooms:
        assert secret_comparisons(path.read_text()) == [], path


def test_every_threat_has_a_test_that_exists() -> None:
    """The page names tests by file and function."""
    root = Path(__file__).parents[3]
    rows = [
        line
        for line in (root / "docs" / "threats.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| threat |", "|---"))
    ]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/[a-z_/0-9]+\.py)(?:::([a-z_0-9]+))?`", row)
        assert named, f"no test: {row}"
        for path, function in named:
            source = (root / path).read_text()
            assert not function or f"def {function}(" in source, f"{path}::{function} is not there"
