"""Where things lie in the store and how they are written: Kafka's ZooKeeper paths and JSON.

Every kind of node has a path function and a value type that encodes and decodes itself.
Fields that Kafka adds later are ignored on reading; what is missing or of the wrong type
raises `MalformedNode`.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from odradek.config import Listener, parse_listener
from odradek.metadata.store import (
    Check,
    Create,
    Delete,
    MetadataError,
    MetadataStore,
    Node,
    NodeExists,
    Operation,
    Set,
)
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

NO_LEADER: Final = BrokerId(-1)
CLUSTER_DEFAULT: Final = "<default>"
"""Stands for a broker id where dynamic settings are meant for the whole cluster."""

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
USER_CONFIGS: Final = "/config/users"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DELETE_TOPICS: Final = "/admin/delete_topics"
BROKER_EPOCHS: Final = "/odradek/broker_epochs"
ID_NODE: Final = "id-"
"""How the name of the node at `topic_id_path` begins."""
STORE_ID: Final = "/odradek/store_id"
"""Tells one store from another that took its place, with the same cluster id perhaps."""

_ROOTS: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    USER_CONFIGS,
    "/config/clients",
    "/config/ips",
    "/admin",
    DELETE_TOPICS,
    "/odradek",
    BROKER_EPOCHS,
)


class MalformedNode(MetadataError):
    """A node that does not hold what its path promises."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the metadata store holds something unexpected at {path}: {reason}")


class ForeignCluster(MetadataError):
    """The store belongs to brokers of Apache Kafka that are alive."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} shows that brokers of another system, Apache Kafka probably, use this metadata"
            " store. Odradek cannot be one of their brokers. Give it a path of its own, as in"
            " zookeeper.connect=host:2181/odradek"
        )


# Paths


def broker_path(broker_id: int | str) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch_path(broker_id: int | str) -> str:
    """A node that outlives the broker: its version is the broker's epoch, set again with every
    registration, so that a `Check` of it lets in nobody who has restarted since. It holds
    `LogDirectories`."""
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_id_path(topic: str, topic_id: TopicId) -> str:
    """A node that is there as long as this topic is, and not for another topic of the same name:
    a `Check` of it binds a change to the topic's id. Topics that other versions, or Kafka, have
    made lack it."""
    return f"{TOPICS}/{topic}/{ID_NODE}{topic_id_text(topic_id)}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: int | str) -> str:
    """`CLUSTER_DEFAULT` for the settings of all brokers."""
    return f"{BROKER_CONFIGS}/{broker}"


def group_config_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{_node_name(group_id)}"


def group_of_config_path(path: str) -> str:
    return unquote(path[len(GROUP_CONFIGS) + 1 :])


def user_config_path(user: str) -> str:
    """Where SCRAM credentials are kept, by the names of the mechanisms."""
    return f"{USER_CONFIGS}/{_node_name(user)}"


def user_of_config_path(path: str) -> str:
    return unquote(path[len(USER_CONFIGS) + 1 :])


def _node_name(name: str) -> str:
    """Groups and users are called what people like, with slashes and dots."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


# Values


class ClusterId(NamedTuple):
    id: str

    def encode(self) -> bytes:
        return _encode({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, value: bytes) -> "ClusterId":
        return cls(_Fields(CLUSTER_ID, value).text("id"))


class BrokerRegistration(NamedTuple):
    """A live broker: where clients find it, by listener name. `epoch` is the version that the
    node at `broker_epoch_path` got with this registration; -1 if whoever registered has none."""

    listeners: tuple[Listener, ...]
    security_protocols: Mapping[str, str]
    rack: str | None = None
    timestamp_ms: int = 0
    epoch: int = -1

    def encode(self) -> bytes:
        plain = [
            listener
            for listener in self.listeners
            if self.security_protocols.get(listener.name) == "PLAINTEXT"
        ]
        fields: dict[str, Json] = {
            "version": 5,
            "host": plain[0].host if plain else None,
            "port": plain[0].port if plain else -1,
            "endpoints": [str(listener) for listener in self.listeners],
            "listener_security_protocol_map": {
                listener.name: self.security_protocols[listener.name] for listener in self.listeners
            },
            "jmx_port": -1,
            "timestamp": str(self.timestamp_ms),
            "features": {},
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        if self.epoch >= 0:
            fields["epoch"] = self.epoch
        return _encode(fields)

    @classmethod
    def decode(cls, path: str, value: bytes) -> "BrokerRegistration":
        fields = _Fields(path, value)
        try:
            listeners = tuple(parse_listener(text) for text in fields.texts("endpoints"))
        except ValueError as error:
            raise MalformedNode(path, str(error)) from None
        return cls(
            listeners,
            fields.text_map("listener_security_protocol_map"),
            fields.optional_text("rack"),
            fields.whole_text("timestamp"),
            fields.whole("epoch", -1),
        )


class LogDirectories(NamedTuple):
    """The ids of the log directories that a broker had when it registered last, as in their
    `meta.properties`: one that is missing at the next start was replaced. Earlier versions wrote
    none."""

    ids: tuple[str, ...]

    def encode(self) -> bytes:
        return _encode({"version": 1, "log_dirs": list(self.ids)})

    @classmethod
    def decode(cls, path: str, value: bytes) -> "LogDirectories":
        return cls(_Fields(path, value).texts("log_dirs")) if value else cls(())


class TopicAssignment(NamedTuple):
    """Which brokers hold which partition, the preferred leader first; index is the partition."""

    topic_id: TopicId
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}

    def encode(self) -> bytes:
        return _encode(
            {
                "version": 3,
                "topic_id": topic_id_text(self.topic_id),
                "partitions": {
                    str(partition): list(replicas)
                    for partition, replicas in enumerate(self.replicas)
                },
                "adding_replicas": _replica_map(self.adding),
                "removing_replicas": _replica_map(self.removing),
            }
        )

    @classmethod
    def decode(cls, path: str, value: bytes) -> "TopicAssignment":
        fields = _Fields(path, value)
        replicas = fields.replicas("partitions")
        if not replicas:
            raise MalformedNode(path, "it has no partitions")
        if sorted(replicas) != list(range(len(replicas))):
            raise MalformedNode(path, "its partitions are not numbered from 0 without gaps")
        topic_id = fields.optional_text("topic_id")
        return cls(
            NO_TOPIC_ID if topic_id is None else parse_topic_id(path, topic_id),
            tuple(replicas[partition] for partition in range(len(replicas))),
            fields.replicas("adding_replicas"),
            fields.replicas("removing_replicas"),
        )


class PartitionState(NamedTuple):
    """Who leads a partition, since when, and which replicas are in sync: one node, so that one
    compare-and-set changes all of it."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    # Left the set when it became too small, and nothing was committed without them since.
    eligible: tuple[int, ...] = ()
    # Without a leader: who was in sync last, and has lost its log since (KIP-966's last known ELR).
    last_known: tuple[int, ...] = ()

    def encode(self) -> bytes:
        return _encoded_state(self)

    @classmethod
    def decode(cls, path: str, value: bytes) -> "PartitionState":
        try:
            return _partition_state(value)
        except MalformedNode as error:
            raise MalformedNode(path, error.reason) from None


@lru_cache(maxsize=1024)
def _encoded_state(state: PartitionState) -> bytes:
    # Remembered for the same reason as below.
    fields: dict[str, Json] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "controller_epoch": state.controller_epoch,
    }
    if state.is_recovering:
        fields["leader_recovery_state"] = 1
    if state.eligible:
        fields["eligible_leader_replicas"] = list(state.eligible)
    if state.last_known:
        fields["last_known_elr"] = list(state.last_known)
    return _encode(fields)


@lru_cache(maxsize=1024)
def _partition_state(value: bytes) -> PartitionState:
    # Remembered, because thousands of partitions share a few leaders and in-sync sets.
    fields = _Fields("", value)
    return PartitionState(
        BrokerId(fields.whole("leader")),
        LeaderEpoch(fields.whole("leader_epoch")),
        fields.wholes("isr"),
        fields.whole("controller_epoch"),
        fields.whole("leader_recovery_state", 0) == 1,
        fields.wholes("eligible_leader_replicas", ()),
        fields.wholes("last_known_elr", ()),
    )


class ConfigOverrides(NamedTuple):
    """Settings of a topic, a broker or a group that differ from what they would be."""

    settings: Mapping[str, str]

    def encode(self) -> bytes:
        return _encode({"version": 1, "config": dict(self.settings)})

    @classmethod
    def decode(cls, path: str, value: bytes) -> "ConfigOverrides":
        return cls(_Fields(path, value).text_map("config"))


class Controller(NamedTuple):
    broker_id: BrokerId
    timestamp_ms: int = 0

    def encode(self) -> bytes:
        return _encode(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": -1,
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> "Controller":
        fields = _Fields(CONTROLLER, value)
        return cls(BrokerId(fields.whole("brokerid")), fields.whole_text("timestamp"))


class ProducerIdBlock(NamedTuple):
    """Producer ids that a broker may give away, both ends included."""

    broker_id: BrokerId
    first: int
    last: int

    def encode(self) -> bytes:
        return _encode(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> "ProducerIdBlock":
        fields = _Fields(PRODUCER_ID_BLOCK, value)
        return cls(
            BrokerId(fields.whole("broker")),
            fields.whole_text("block_start"),
            fields.whole_text("block_end"),
        )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise MalformedNode(CONTROLLER_EPOCH, f"{value!r} is not a number") from None


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base 64."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(path: str, text: str) -> TopicId:
    try:
        topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != 16:
        raise MalformedNode(path, f"{text!r} is not a topic id")
    return TopicId(topic_id)


# Changes that touch several nodes


async def prepare(store: MetadataStore, cluster_id: str, store_id: str = "") -> str:
    """Makes the nodes everything else hangs on, and returns the cluster's id: the one given
    if the store is new. Likewise the store gets its own id, if one is given.

    Raises `ForeignCluster` if Kafka's brokers are registered there: they would take this broker
    for one of theirs. Kafka's nodes without a live broker are taken over.
    """
    while True:
        tree = await store.read_tree("/")
        if "/odradek" not in tree:
            for path in tree:
                if path == CONTROLLER or path.startswith(f"{BROKER_IDS}/"):
                    raise ForeignCluster(path)
        missing = [Create(path) for path in _ROOTS if path not in tree]
        if CLUSTER_ID not in tree:
            missing.append(Create(CLUSTER_ID, ClusterId(cluster_id).encode()))
        if store_id and STORE_ID not in tree:
            missing.append(Create(STORE_ID, store_id.encode()))
        if not missing:
            return ClusterId.decode(tree[CLUSTER_ID].value).id
        try:
            await store.multi(*missing)
        except NodeExists:
            # Another broker is preparing the same store: see what is left to do.
            continue


def create_topic(
    topic: str,
    assignment: TopicAssignment,
    states: Sequence[PartitionState],
    overrides: Mapping[str, str],
    leftover: Node | None,
) -> list[Operation]:
    """The operations that make a topic; they fail with `NodeExists` if there is one.

    `leftover` is the node at `topic_config_path`, read beforehand. There is none, unless an
    earlier version deleted a topic of this name while somebody set its first override. Such a
    node is replaced: a new topic never has the settings of another one. If it has changed since,
    the operations fail and name its path."""
    operations: list[Operation] = [
        Create(topic_path(topic), assignment.encode()),
        Create(topic_id_path(topic, assignment.topic_id)),
    ]
    config, settings = topic_config_path(topic), ConfigOverrides(overrides).encode()
    if leftover is not None:
        operations.append(Set(config, settings, leftover.version))
    elif overrides:
        operations.append(Create(config, settings))
    operations.append(Create(f"{topic_path(topic)}/partitions"))
    operations += create_partitions(topic, 0, states)
    return operations


def create_partitions(
    topic: str, first_partition: int, states: Sequence[PartitionState]
) -> list[Operation]:
    """The nodes of partitions; that the topic has them is set in its assignment."""
    operations: list[Operation] = []
    for partition, state in enumerate(states, start=first_partition):
        path = partition_state_path(topic, partition)
        operations.append(Create(path.removesuffix("/state")))
        operations.append(Create(path, state.encode()))
    return operations


def delete_topic(topic: str, tree: Mapping[str, Node], config: Node | None) -> list[Operation]:
    """The operations that remove a topic, given `read_tree(topic_path(topic))` and the node
    of its settings. They fail with `BadVersion` if its assignment or its settings have changed
    since, with `NodeExists` if it had no settings and has some now, and with `NoNode` if the topic
    has been deleted, even if there is another one of its name by now.

    The first `n` of them, for any `n`, leave a topic with fewer partitions that can be deleted by
    the rest. Its settings, the node of its id and its own node go last."""
    path = topic_path(topic)
    last = [*(below for below in tree if below.startswith(f"{path}/{ID_NODE}")), path]
    operations: list[Operation] = [Check(path, tree[path].version)]
    operations += [Check(id_path) for id_path in last[:-1]]
    operations += [Delete(below) for below in reversed(list(tree)) if below not in last]
    config_path = topic_config_path(topic)
    if config is not None:
        operations.append(Delete(config_path, config.version))
    else:
        # The store has no operation that checks that a node is missing. If only the first of these
        # two is among the operations that are written, the topic has settings that say nothing.
        operations.append(Create(config_path, ConfigOverrides({}).encode()))
        operations.append(Delete(config_path, version=0))
    operations += map(Delete, last)
    return operations


# JSON


def _encode(fields: Mapping[str, Json]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _replica_map(replicas: Mapping[int, Iterable[int]]) -> dict[str, Json]:
    return {str(partition): list(brokers) for partition, brokers in replicas.items()}


class _Fields:
    """The fields of a JSON object, each asked for by the type it must have."""

    __slots__ = ("_fields", "_path")

    def __init__(self, path: str, value: bytes) -> None:
        self._path = path
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError):
            raise MalformedNode(path, "it is not JSON") from None
        if not isinstance(fields, dict):
            raise MalformedNode(path, "it is not a JSON object")
        self._fields: dict[str, Json] = fields

    def _malformed(self, name: str, expected: str) -> MalformedNode:
        return MalformedNode(self._path, f"{name} is not {expected}")

    def whole(self, name: str, default: int | None = None) -> int:
        value = self._fields.get(name, default)
        if type(value) is not int:
            raise self._malformed(name, "a whole number")
        return value

    def whole_text(self, name: str) -> int:
        value = self._fields.get(name)
        try:
            return int(value) if isinstance(value, str | int) else int("")
        except ValueError:
            raise self._malformed(name, "a whole number") from None

    def wholes(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if default is not None and name not in self._fields:
            return default
        return self._wholes(name, self._fields.get(name))

    def _wholes(self, name: str, value: Json) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        numbers = tuple(item for item in value if type(item) is int)
        if len(numbers) != len(value):
            raise self._malformed(name, "a list of whole numbers")
        return numbers

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._malformed(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        return tuple(map(str, value))

    def text_map(self, name: str) -> dict[str, str]:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        return {key: str(item) for key, item in value.items()}

    def replicas(self, name: str) -> dict[int, tuple[int, ...]]:
        value = self._fields.get(name, {})
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        if not all(key.isascii() and key.isdigit() for key in value):
            raise self._malformed(name, "keyed by partition")
        return {int(key): self._wholes(name, item) for key, item in value.items()}
