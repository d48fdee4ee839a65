"""The topics of the coordinators have their right settings, whoever asks for them first."""

import pytest

from odradek.metadata import Delete, Set
from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import topic_config_path
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterableConfig as GivenConfig,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsResource as GivenResource,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.unit.cluster.crew import Crew, on_crew

_TOPIC, _SET, _DELETE = 2, 0, 1
PARTITIONS = {"__consumer_offsets": 50, "__transaction_state": 50}


async def create(
    crew: Crew, name: str, partitions: int = -1, factor: int = -1, **configs: str
) -> int:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    response = await crew.ask(1, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    return response.topics[0].error_code


async def alter(crew: Crew, name: str, setting: str, operation: int, value: str | None) -> int:
    config = AlterableConfig(name=setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await crew.ask(1, request, IncrementalAlterConfigsResponse)
    return response.responses[0].error_code


@pytest.mark.parametrize("name", PARTITIONS)
@on_crew(num_partitions="1", auto_create_topics_enable="true")
async def test_whoever_asks_for_metadata_first_gets_a_topic_as_the_coordinator_makes_it(
    crew: Crew, name: str
) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    response = await crew.ask(1, request, MetadataResponse)
    assert response.topics[0].error_code == ErrorCode.NONE
    topic = crew.image.topics[name]
    assert len(topic.partitions) == PARTITIONS[name]
    assert {len(partition.replicas) for partition in topic.partitions} == {3}
    assert topic.overrides["cleanup.policy"] == "compact"
    assert topic.overrides["segment.bytes"] == str(100 << 20)


@on_crew()
async def test_one_that_is_created_by_hand_is_compacted_and_has_what_it_asks_for(
    crew: Crew,
) -> None:
    assert await create(crew, "__consumer_offsets", 4, 2, segment_bytes="1048576") == 0
    topic = crew.image.topics["__consumer_offsets"]
    assert len(topic.partitions) == 4
    assert {len(partition.replicas) for partition in topic.partitions} == {2}
    assert topic.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
@on_crew()
async def test_another_cleanup_policy_is_refused(crew: Crew, policy: str) -> None:
    name = "__transaction_state"
    refused = ErrorCode.INVALID_CONFIG
    assert await create(crew, name, cleanup_policy=policy) == refused
    assert name not in crew.image.topics
    assert await create(crew, name) == 0
    assert await alter(crew, name, "cleanup.policy", _SET, policy) == refused
    assert crew.image.topic_overrides(name)["cleanup.policy"] == "compact"


@on_crew()
async def test_settings_that_are_reset_leave_the_topic_compacted(crew: Crew) -> None:
    name = "__consumer_offsets"
    assert await create(crew, name) == 0
    assert await alter(crew, name, "cleanup.policy", _DELETE, None) == 0
    assert crew.image.topic_overrides(name)["cleanup.policy"] == "compact"
    config = GivenConfig(name="segment.bytes", value="2000000")
    resource = GivenResource(resource_type=_TOPIC, resource_name=name, configs=[config])
    await crew.ask(1, AlterConfigsRequest(resources=[resource]), AlterConfigsResponse)
    overrides = crew.image.topic_overrides(name)
    assert overrides == {"segment.bytes": "2000000", "cleanup.policy": "compact"}


@pytest.mark.parametrize("wrong", [None, {"cleanup.policy": "delete", "segment.bytes": "1000000"}])
@on_crew(size=1)
async def test_a_wrong_one_is_put_right_and_announced_when_a_broker_starts(
    crew: Crew, wrong: dict[str, str] | None
) -> None:
    name = "__consumer_offsets"
    assert await create(crew, name, 3, 1) == 0
    await crew.brokers[1].stop()
    store, path = crew.store.connect(), topic_config_path(name)
    await store.multi(Delete(path) if wrong is None else Set(path, ConfigOverrides(wrong).encode()))
    await crew.start(1)
    await crew.until(lambda: crew.image.topic_overrides(name).get("cleanup.policy") == "compact")
    assert "which would delete what the coordinators keep" in crew.simulation.trace.text()
    assert len(crew.image.topics[name].partitions) == 3
    if wrong is not None:
        assert crew.image.topic_overrides(name)["segment.bytes"] == "1000000"


@pytest.mark.parametrize(
    ("name", "key_type"), [("__consumer_offsets", 0), ("__transaction_state", 1)]
)
@on_crew(
    size=2,
    offsets_topic_replication_factor="3",
    transaction_state_log_replication_factor="3",
)
async def test_no_topic_has_fewer_replicas_than_the_operator_has_asked_for(
    crew: Crew, name: str, key_type: int
) -> None:
    """A simulation lost `__transaction_state` in a power cut: it had one replica instead of three,
    because one broker lived when it was created."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
    (found,) = (await crew.ask(1, request, FindCoordinatorResponse)).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message is not None
    assert name in found.error_message
    assert name not in crew.image.topics
    await crew.add_broker()
    (found,) = (await crew.ask(1, request, FindCoordinatorResponse)).coordinators
    assert found.error_code == ErrorCode.NONE
    assert {len(each.replicas) for each in crew.image.topics[name].partitions} == {3}


@on_crew(size=2)
async def test_without_such_a_setting_a_small_cluster_has_groups_at_once(crew: Crew) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["k"])
    (found,) = (await crew.ask(1, request, FindCoordinatorResponse)).coordinators
    assert found.error_code == ErrorCode.NONE
    topic = crew.image.topics["__consumer_offsets"]
    assert {len(each.replicas) for each in topic.partitions} == {2}
