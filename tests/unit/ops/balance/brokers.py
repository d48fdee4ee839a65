"""An admin client of a cluster in memory, for tests of how a plan is carried out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from odradek.client.admin.broker_types import ClusterDescription, LogDirectory, LogDirectoryReplica
from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.admin.partitions import ElectionType, Reassignment
from odradek.client.cluster_view import Broker, Partition, Topic
from odradek.config.operation import ConfigOperation
from odradek.ops.balance.reading import BalanceAdmin
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition


class FakeBrokers:
    """Brokers 1 to 3. A reassignment that moves data is in progress until `arrive` is called, or
    for as many looks as `looks` says."""

    def __init__(self, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.replicas = dict(replicas)
        self.leaders = {name: brokers[0] for name, brokers in replicas.items()}
        self.targets: dict[TopicPartition, tuple[int, ...]] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.alive = {1, 2, 3}
        self.looks = 0
        self.is_stuck = False
        self.calls: list[str] = []

    @property
    def admin(self) -> BalanceAdmin:
        return cast("BalanceAdmin", self)

    def arrive(self) -> None:
        for name, target in self.targets.items():
            self.replicas[name] = target
            if self.leaders[name] not in target:
                self.leaders[name] = target[0]
        self.targets.clear()

    async def describe_cluster(self) -> ClusterDescription:
        brokers = tuple(Broker(BrokerId(number), "h", 1) for number in sorted(self.alive))
        return ClusterDescription("c", BrokerId(1), brokers, frozenset())

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        topics: dict[str, dict[int, Partition]] = {}
        for name, replicas in self.replicas.items():
            brokers = tuple(map(BrokerId, replicas))
            topics.setdefault(name.topic, {})[name.partition] = Partition(
                name.partition,
                BrokerId(self.leaders[name]),
                LeaderEpoch(0),
                brokers,
                brokers,
                (),
            )
        return {name: Topic(name, NO_TOPIC_ID, False, parts) for name, parts in topics.items()}

    async def describe_log_dirs(
        self, brokers: Iterable[int], names: Iterable[TopicPartition] = ()
    ) -> dict[BrokerId, list[LogDirectory]]:
        return {
            BrokerId(broker): [
                LogDirectory(
                    "d", 0, -1, -1,
                    {name: LogDirectoryReplica(1, 0, False)
                     for name, replicas in self.replicas.items() if broker in replicas},
                )
            ]
            for broker in brokers
        }  # fmt: skip

    async def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        answers: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for resource in resources:
            own = self.configs.get(resource, {})
            source = (
                ConfigSource.DYNAMIC_BROKER_CONFIG
                if resource.type is ConfigType.BROKER
                else ConfigSource.DYNAMIC_TOPIC_CONFIG
            )
            answers[resource] = {
                name: ConfigEntry(
                    name, own.get(name), source if name in own else ConfigSource.DEFAULT_CONFIG,
                    False, False, 0, (), None,
                )
                for name in names
            }  # fmt: skip
        return answers

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]]
    ) -> dict[ConfigResource, KafkaError | None]:
        self.calls.append("configs")
        answers: dict[ConfigResource, KafkaError | None] = {}
        topics = {name.topic for name in self.replicas}
        for resource, wanted in changes.items():
            if resource.type is ConfigType.TOPIC and resource.name not in topics:
                answers[resource] = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            own = self.configs.setdefault(resource, {})
            for change in wanted:
                if change.operation is ConfigOperation.DELETE:
                    own.pop(change.name, None)
                else:
                    own[change.name] = str(change.value)
            answers[resource] = None
        return answers

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, KafkaError | None]:
        self.calls.append(f"move {sorted(map(str, targets))}")
        answers: dict[TopicPartition, KafkaError | None] = {}
        for name, target in targets.items():
            if name not in self.replicas:
                answers[name] = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif set(target) == set(self.replicas[name]):
                self.replicas[name] = tuple(target)
                answers[name] = None
            else:
                self.targets[name] = tuple(target)
                answers[name] = None
        return answers

    async def cancel_partition_reassignments(
        self, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        for name in names:
            self.targets.pop(name, None)
        return {}

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        if self.looks == 0 and not self.is_stuck:
            self.arrive()
        self.looks = max(0, self.looks - 1)
        return {name: Reassignment((), (), ()) for name in self.targets}

    async def elect_leaders(
        self, kind: ElectionType, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        names = list(names)
        self.calls.append(f"elect {sorted(map(str, names))}")
        for name in names:
            if name in self.replicas:
                self.leaders[name] = self.replicas[name][0]
        return dict.fromkeys(names)

    def throttled(self) -> dict[str, dict[str, str]]:
        return {resource.name: dict(own) for resource, own in self.configs.items() if own}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"execution used {name}, which these brokers do not have")
