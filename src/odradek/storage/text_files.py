"""The formats of Kafka's small text files.

They are: offset checkpoints, `partition.metadata` (the topic id), `meta.properties` (the cluster
and broker that own a log directory) and `.kafka_cleanshutdown`.

A checkpoint has the version 0 in its first line, the number of entries in the second, and then an
entry in each line. The files are replaced as a whole and synced, so a crash leaves the old content
or the new content.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.protocol.types import NO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from odradek.storage.errors import StorageError
from odradek.storage.file_names import META_PROPERTIES
from odradek.wording import counted
from odradek.world.disk import Disk

_VERSION = 0


class MalformedCheckpoint(StorageError):
    """A text file does not have the format that it should have."""


def encode_lines(entries: list[str]) -> bytes:
    return "\n".join((str(_VERSION), str(len(entries)), *entries, "")).encode()


def decode_lines(content: bytes) -> list[str]:
    try:
        lines = content.decode().splitlines()
        if len(lines) < 2:
            # Kafka makes the file before it first writes it.
            return []
        version, count, entries = int(lines[0]), int(lines[1]), lines[2:]
    except ValueError as error:
        raise MalformedCheckpoint(f"a checkpoint file is malformed: {error}") from error
    if version != _VERSION:
        raise MalformedCheckpoint(f"a checkpoint file has version {version}, not {_VERSION}")
    if count != len(entries):
        raise MalformedCheckpoint(
            f"a checkpoint file has {counted(len(entries), 'entry', 'entries')}, not {count}"
        )
    return entries


def encode_offset(topic_partition: TopicPartition, offset: Offset) -> str:
    topic, partition = topic_partition
    return f"{topic} {partition} {offset}"


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return encode_lines([encode_offset(*entry) for entry in offsets.items()])


def decode_offsets(content: bytes) -> dict[TopicPartition, Offset]:
    offsets: dict[TopicPartition, Offset] = {}
    for line in decode_lines(content):
        fields = line.split(" ")
        try:
            topic, partition, offset = fields
            offsets[TopicPartition(topic, int(partition))] = Offset(int(offset))
        except ValueError:
            raise MalformedCheckpoint(f"a checkpoint has a malformed line: {line!r}") from None
    return offsets


# partition.metadata


def encode_uuid(identifier: bytes) -> str:
    """Kafka's text form of an identifier: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    try:
        identifier = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise MalformedCheckpoint(f"{text!r} is not an identifier: {error}") from error
    if len(identifier) != 16:
        raise MalformedCheckpoint(f"{text!r} is not an identifier of 16 bytes")
    return identifier


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> TopicId:
    """An empty file, as a power cut can leave it, means that the id is not known."""
    fields = dict(
        line.split(": ", 1)
        for line in content.decode(errors="replace").splitlines()
        if ": " in line
    )
    if "topic_id" not in fields:
        return NO_TOPIC_ID
    return TopicId(decode_uuid(fields["topic_id"].strip()))


# meta.properties


STORE_ID_PROPERTY = "odradek.store.id"


class DirectoryProperties(NamedTuple):
    """The cluster, the broker and the metadata store that a log directory belongs to."""

    cluster_id: str
    node_id: BrokerId
    directory_id: UUID
    store_id: str = ""

    def encode(self) -> bytes:
        directory_id = encode_uuid(self.directory_id.bytes)
        return (
            "#\n"
            f"cluster.id={self.cluster_id}\n"
            f"directory.id={directory_id}\n"
            f"node.id={self.node_id}\n"
            + (f"{STORE_ID_PROPERTY}={self.store_id}\n" if self.store_id else "")
            + "version=1\n"
        ).encode()


def parse_properties(content: bytes) -> dict[str, str]:
    """Parses the part of Java's properties format that `meta.properties` uses."""
    lines = (line.strip() for line in content.decode().splitlines())
    pairs = (line.split("=", 1) for line in lines if line and line[0] not in "#!" and "=" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def read_directory_properties(disk: Disk, directory: str) -> dict[str, str]:
    """Returns an empty dict if the directory was never used."""
    try:
        return parse_properties(disk.read(f"{directory}/{META_PROPERTIES}"))
    except FileNotFoundError:
        return {}


# .kafka_cleanshutdown


class CleanStop(NamedTuple):
    """Tells for which registration of the broker its logs are complete, if they are closed now.

    `broker_epoch` is the epoch of the last registration that was confirmed, -1 if there was none.
    `runs` are the ids of the runs that have sent another registration since, and did not hear
    whether it was written.
    """

    broker_epoch: int
    runs: tuple[str, ...] = ()

    def covers(self, broker_epoch: int, run: str) -> bool:
        """Returns whether the logs are complete if the store holds this broker epoch, written by
        this run. The epoch after `broker_epoch` is not enough: if the registration was not written,
        another run may have taken that epoch, and have written to other log directories."""
        return broker_epoch == self.broker_epoch or run in self.runs

    def encode(self) -> bytes:
        """Kafka's marker, unless a registration is in doubt. Earlier versions ignore `runs`."""
        fields: dict[str, object] = {"version": 0, "brokerEpoch": self.broker_epoch}
        if self.runs:
            fields["runs"] = self.runs
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes) -> "CleanStop":
        """The epoch is -1 if the marker holds none, as older Kafkas wrote it."""
        try:
            fields = json.loads(content)
        except ValueError:
            return NO_CLEAN_STOP
        if not isinstance(fields, dict):
            return NO_CLEAN_STOP
        epoch, runs = fields.get("brokerEpoch"), fields.get("runs")
        return cls(
            epoch if isinstance(epoch, int) else -1,
            tuple(run for run in runs if isinstance(run, str)) if isinstance(runs, list) else (),
        )


# Covers no registration.
NO_CLEAN_STOP = CleanStop(-1)


def common_stop(stops: Sequence[CleanStop]) -> CleanStop:
    """What the markers of all log directories tell of the broker. A directory that was offline at
    the last stop has an older marker, which covers less."""
    epoch = min(stop.broker_epoch for stop in stops)
    runs = tuple(run for run in stops[0].runs if all(run in stop.runs for stop in stops))
    return CleanStop(epoch, runs)
