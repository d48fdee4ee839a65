"""What the nodes of the metadata store hold: Kafka's JSON, a type for each kind of node.

Each type encodes and decodes itself. Fields that Kafka adds later are ignored on reading. A field
that is missing or of the wrong type raises `MalformedNode`.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from odradek.config import Listener, parse_listener
from odradek.metadata.json_fields import Json, JsonFields, MalformedNode, encode_fields
from odradek.metadata.paths import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    PRODUCER_ID_BLOCK,
    topic_id_text,
)
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId

NO_LEADER: Final = BrokerId(-1)


class ClusterId(NamedTuple):
    id: str

    def encode(self) -> bytes:
        return encode_fields({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, value: bytes) -> "ClusterId":
        return cls(JsonFields(CLUSTER_ID, value).text("id"))


class BrokerRegistration(NamedTuple):
    """A live broker: its addresses, by listener name. `epoch` is the version that the node at
    `broker_epoch_path` got with this registration; -1 if a broker of Kafka registered.

    `session_timeout_ms` is the timeout of the session under which it registered, 0 if it is not
    known, as of brokers of earlier versions. A new leader needs it: a deposed one may answer from
    memory for as long (`replication.isr_changes`)."""

    listeners: tuple[Listener, ...]
    security_protocols: Mapping[str, str]
    rack: str | None = None
    timestamp_ms: int = 0
    epoch: int = -1
    session_timeout_ms: int = 0

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
        if self.session_timeout_ms:
            fields["session_timeout_ms"] = self.session_timeout_ms
        return encode_fields(fields)

    @classmethod
    def decode(cls, path: str, value: bytes) -> "BrokerRegistration":
        fields = JsonFields(path, value)
        try:
            listeners = tuple(parse_listener(text) for text in fields.texts("endpoints"))
        except ValueError as error:
            raise MalformedNode(path, str(error)) from None
        return cls(
            listeners,
            fields.text_map("listener_security_protocol_map"),
            fields.optional_text("rack"),
            fields.integer_or_text("timestamp"),
            fields.integer("epoch", -1),
            fields.integer("session_timeout_ms", 0),
        )


class LastRegistration(NamedTuple):
    """What outlives a broker's registration. Earlier versions stored nothing, or no `run`.

    `log_directories` are the ids in the `meta.properties` of its log directories. A directory that
    is missing at the next start was replaced. `run` is the id of the run that registered: a broker
    whose reply was lost finds out from it whether the registration is its own.
    """

    log_directories: tuple[str, ...] = ()
    run: str = ""

    def encode(self) -> bytes:
        fields: dict[str, Json] = {"version": 1, "log_dirs": list(self.log_directories)}
        if self.run:
            fields["run"] = self.run
        return encode_fields(fields)

    @classmethod
    def decode(cls, path: str, value: bytes) -> "LastRegistration":
        if not value:
            return cls()
        fields = JsonFields(path, value)
        return cls(fields.texts("log_dirs"), fields.optional_text("run") or "")


class TopicAssignment(NamedTuple):
    """The replicas of each partition, the preferred leader first; the index is the partition."""

    topic_id: TopicId
    replicas: tuple[tuple[BrokerId, ...], ...]
    adding: Mapping[int, tuple[BrokerId, ...]] = {}
    removing: Mapping[int, tuple[BrokerId, ...]] = {}

    def encode(self) -> bytes:
        return encode_fields(
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
        fields = JsonFields(path, value)
        replicas = fields.broker_ids_by_partition("partitions")
        if not replicas:
            raise MalformedNode(path, "it has no partitions")
        if sorted(replicas) != list(range(len(replicas))):
            raise MalformedNode(path, "its partitions are not numbered from 0 without gaps")
        topic_id = fields.optional_text("topic_id")
        return cls(
            NO_TOPIC_ID if topic_id is None else parse_topic_id(path, topic_id),
            tuple(replicas[partition] for partition in range(len(replicas))),
            fields.broker_ids_by_partition("adding_replicas", is_optional=True),
            fields.broker_ids_by_partition("removing_replicas", is_optional=True),
        )


class PartitionState(NamedTuple):
    """The leader, leader epoch and ISR of a partition. They are in one node, so that one
    compare-and-set changes all of them."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    is_recovering: bool = False
    # Left the set when it became too small; nothing was committed since (KIP-966).
    eligible: tuple[BrokerId, ...] = ()
    # The replica that was in sync last and lost its log, while there is no leader (KIP-966's last
    # known ELR).
    last_known: tuple[BrokerId, ...] = ()

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
    # Cached for the same reason as below.
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
    return encode_fields(fields)


@lru_cache(maxsize=1024)
def _partition_state(value: bytes) -> PartitionState:
    # Cached, because thousands of partitions share a few leaders and ISRs.
    fields = JsonFields("", value)
    return PartitionState(
        BrokerId(fields.integer("leader")),
        LeaderEpoch(fields.integer("leader_epoch")),
        fields.broker_ids("isr"),
        fields.integer("controller_epoch"),
        fields.integer("leader_recovery_state", 0) == 1,
        fields.broker_ids("eligible_leader_replicas", ()),
        fields.broker_ids("last_known_elr", ()),
    )


class ConfigOverrides(NamedTuple):
    """The settings of a topic, a broker or a group that override the defaults."""

    settings: Mapping[str, str]

    def encode(self) -> bytes:
        return encode_fields({"version": 1, "config": dict(self.settings)})

    @classmethod
    def decode(cls, path: str, value: bytes) -> "ConfigOverrides":
        return cls(JsonFields(path, value).text_map("config"))


class Controller(NamedTuple):
    broker_id: BrokerId
    timestamp_ms: int = 0

    def encode(self) -> bytes:
        return encode_fields(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": -1,
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> "Controller":
        fields = JsonFields(CONTROLLER, value)
        return cls(BrokerId(fields.integer("brokerid")), fields.integer_or_text("timestamp"))


class ProducerIdBlock(NamedTuple):
    """Producer ids that a broker may allocate, both ends included."""

    broker_id: BrokerId
    first: int
    last: int

    def encode(self) -> bytes:
        return encode_fields(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> "ProducerIdBlock":
        fields = JsonFields(PRODUCER_ID_BLOCK, value)
        return cls(
            BrokerId(fields.integer("broker")),
            fields.integer_or_text("block_start"),
            fields.integer_or_text("block_end"),
        )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise MalformedNode(CONTROLLER_EPOCH, f"{value!r} is not a number") from None


def parse_topic_id(path: str, text: str) -> TopicId:
    try:
        topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != 16:
        raise MalformedNode(path, f"{text!r} is not a topic id")
    return TopicId(topic_id)


def _replica_map(replicas: Mapping[int, Iterable[int]]) -> dict[str, Json]:
    return {str(partition): list(brokers) for partition, brokers in replicas.items()}
