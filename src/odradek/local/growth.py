"""The data of a single broker becomes the data of broker 1 of a cluster: `odradek local grow`.

A single broker keeps its partitions in D itself, a cluster keeps those of broker 1 in D/broker-1:

    D/metadata.sqlite     stays: the broker's own metadata store becomes that of the cluster
    D/grow.json           a `Growth`: what was decided, until the command has finished
    D/.growing/           partitions and files of the broker, while they move
    D/broker-1/           the same directory, under its final name

The steps, each of which can be repeated after a crash:

1. `Growth.write`: the decisions are on the disk before anything changes.
2. The broker stops.
3. Everything that belongs to the broker is renamed into D/.growing. Nothing is copied.
4. D/.growing gets the broker's server.properties, and is renamed to D/broker-1. This one rename
   makes D the directory of a cluster. D/broker-1 may have been partition 1 of a topic `broker`
   before, therefore the detour.
5. The other brokers get their server.properties.

D is the directory of a single broker as long as D/.growing is missing, and `odradek up` may start
it. While D/.growing exists, only this command may go on (`require_not_growing` in
`cluster_directory.py`). Afterwards `odradek up --brokers N` may start the cluster, even if not all
topics have their copies yet.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from odradek.local.cluster_directory import (
    LOCK_FILE,
    STAGING,
    BrokerDirectory,
    broker_directories,
    brokers_in,
    laptop_settings,
    write_settings,
)
from odradek.local.securing import SecuredDirectory
from odradek.tools.failures import CommandFailed
from odradek.world.disk import DirectoryLock, Disk

GROWTH_FILE = "grow.json"
GROWTH_LOCK = "grow.lock"
STORE_FILE = "metadata.sqlite"

# What belongs to the cluster, or to this command, and therefore stays in D. Names of partitions end
# with a number, so none of these can be one.
_STAYS = frozenset(
    {
        STORE_FILE,
        f"{STORE_FILE}-wal",
        f"{STORE_FILE}-shm",
        f"{STORE_FILE}-journal",
        "metadata.socket",
        "metadata.log",
        "metadata.out",
        "up.log",
        "security",
        "client.properties",
        "librdkafka.properties",
        "up.pid",
        GROWTH_FILE,
        f"{GROWTH_FILE}.tmp",
        GROWTH_LOCK,
        STAGING,
    }
)


@dataclass(slots=True)
class Growth:
    """What was decided about the cluster, and what has to be undone at the end. It is in
    D/grow.json from the first change to the last."""

    data: str
    brokers: int
    host: str
    port: int
    """Where broker 1 listens, as before. Broker i listens at `port` + i - 1."""
    advertised: str | None = None
    """The host that clients are told, if it is not `host`."""
    settings: dict[str, str] = field(default_factory=dict)
    """The settings that the broker was started with, for all brokers."""
    lowered: dict[str, str | None] = field(default_factory=dict)
    """Topics whose `min.insync.replicas` is 1 while they get their copies, and the value that the
    topic had itself, or None."""

    @property
    def copies(self) -> int:
        return int(laptop_settings(self.brokers)["default.replication.factor"])

    @property
    def min_in_sync(self) -> int:
        return int(laptop_settings(self.brokers)["min.insync.replicas"])

    @property
    def directories(self) -> list[BrokerDirectory]:
        return broker_directories(self.data, range(self.port, self.port + self.brokers))

    @property
    def bootstrap(self) -> str:
        host = self.advertised or self.host
        return ",".join(f"{host}:{broker.port}" for broker in self.directories)

    @classmethod
    def read(cls, disk: Disk, data: str) -> Self | None:
        path = f"{data}/{GROWTH_FILE}"
        try:
            text = disk.read(path)
        except FileNotFoundError:
            return None
        try:
            return cls(**{**json.loads(text), "data": data})
        except (ValueError, TypeError):
            raise CommandFailed(
                f"{path} cannot be read; it was not written by this version of odradek"
            ) from None

    def write(self, disk: Disk) -> None:
        disk.replace(f"{self.data}/{GROWTH_FILE}", json.dumps(asdict(self), indent=1).encode())

    def forget(self, disk: Disk) -> None:
        disk.remove(f"{self.data}/{GROWTH_FILE}")


def is_lone(disk: Disk, data: str) -> bool:
    """Returns whether a single broker has its data in this directory, and all of it."""
    return disk.exists(f"{data}/meta.properties") and not is_moving(disk, data)


def is_moving(disk: Disk, data: str) -> bool:
    """Returns whether a part of the broker's data has been moved, and a part perhaps not."""
    return disk.exists(f"{data}/{STAGING}")


def data_bytes(disk: Disk, data: str) -> int:
    """Returns the size of the partitions of a single broker."""
    total = 0
    for name in disk.list_directory(data):
        if name in _STAYS or not name.rpartition("-")[2].isdigit():
            continue
        try:
            files = disk.list_directory(f"{data}/{name}")
            total += sum(disk.size(f"{data}/{name}/{file}") for file in files)
        except OSError:
            # A file that the running broker has just removed.
            continue
    return total


def move_data(disk: Disk, growth: Growth) -> None:
    """Steps 3 to 5: makes the directory of a stopped single broker that of a cluster. What an
    earlier call has done is not done again."""
    data = growth.data
    staging = f"{data}/{STAGING}"
    first, *others = growth.directories
    if is_lone(disk, data) or is_moving(disk, data):
        lock = _locked(disk, data)
        try:
            disk.make_directories(staging)
            _move_files(disk, data, staging)
            _write_settings(disk, growth, first, staging)
            disk.sync_directory(staging)
            disk.sync_directory(data)
            disk.rename(staging, first.directory)
            disk.sync_directory(data)
        except OSError as error:
            raise CommandFailed(
                f"cannot move {error.filename or data} to {first.directory}: {error.strerror};"
                f" mend that and go on with: odradek local grow --data {shlex.quote(data)}"
            ) from None
        finally:
            lock.release()
    for broker in others:
        if broker.id not in brokers_in(disk, data):
            disk.make_directories(broker.directory)
            _write_settings(disk, growth, broker, broker.directory)


def _locked(disk: Disk, data: str) -> DirectoryLock:
    """Takes the lock that a broker holds while it uses the directory."""
    try:
        return disk.lock(f"{data}/{LOCK_FILE}")
    except BlockingIOError:
        raise CommandFailed(
            f"a broker uses {data}; stop it, and go on with:"
            f" odradek local grow --data {shlex.quote(data)}"
        ) from None


def _move_files(disk: Disk, data: str, staging: str) -> None:
    for name in disk.list_directory(data):
        if name not in _STAYS:
            disk.rename(f"{data}/{name}", f"{staging}/{name}")


def _write_settings(disk: Disk, growth: Growth, broker: BrokerDirectory, directory: str) -> None:
    """Writes a broker's settings file. Its addresses and directories are decided by `odradek up`
    as well, with the same values."""
    secured = SecuredDirectory(disk, growth.data)
    decided = {
        "node.id": str(broker.id),
        "listeners": f"{secured.listener}://{growth.host}:{broker.port}",
        "log.dirs": broker.directory,
        **advertised_listeners(growth, broker, secured.listener),
        "odradek.metadata.store": "socket",
        "odradek.metadata.path": f"{growth.data}/metadata.socket",
        **growth.settings,
        **laptop_settings(growth.brokers),
    }
    required = secured.broker_settings(broker.id) if secured.is_made else {}
    write_settings(disk, broker, decided, {}, required=required, directory=directory)


def advertised_listeners(
    growth: Growth, broker: BrokerDirectory, listener: str = "PLAINTEXT"
) -> Mapping[str, str]:
    if growth.advertised is None:
        return {}
    return {"advertised.listeners": f"{listener}://{growth.advertised}:{broker.port}"}
