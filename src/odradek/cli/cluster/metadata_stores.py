"""Opens the metadata store that a user names, to look at its nodes.

There are three kinds of stores, and one interface (`MetadataStore`):

- a ZooKeeper ensemble, by its address;
- the store that the brokers of `odradek up --brokers N` share, by the socket in their directory;
- the SQLite file of a lone broker, or of a cluster that does not run. The broker has the file for
  itself, so a copy is read. Nodes that end with the broker's session are in its memory only.
"""

import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.cli.cluster.zookeeper_connection import security_of, zookeeper_settings
from odradek.metadata.store import Metadata, MetadataError, MetadataStore
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world import World
from odradek.world.disk import OsDisk

if TYPE_CHECKING:
    from odradek.config import BrokerSettings

_SOCKET: Final = "metadata.socket"
_FILE: Final = "metadata.sqlite"
_CONNECT_S: Final = 3.0
_COPIES: Final = 20


class OpenStore(NamedTuple):
    nodes: MetadataStore
    is_copy: bool


@asynccontextmanager
async def opened(address: str, zookeeper_file: str | None = None) -> AsyncIterator[OpenStore]:
    """Opens the store of an address or a directory. `zookeeper_file` says how to talk to an
    ensemble, as in `zookeeper_connection`. Errors of the store are raised as
    `CommandFailed`."""
    with TemporaryDirectory(prefix="odradek-") as copies:
        try:
            metadata, is_copy = _find(address, copies, zookeeper_file)
            try:
                yield OpenStore(metadata.connect(), is_copy)
            finally:
                await metadata.close()
        except MetadataError as error:
            raise CommandFailed(str(error)) from None


@asynccontextmanager
async def opened_for_writing(settings: "BrokerSettings") -> AsyncIterator[Metadata]:
    """Opens the store that a broker's settings name, to write before that broker runs. The session
    is not the one that the broker remembers."""
    try:
        metadata = _of_settings(settings)
        try:
            yield metadata
        finally:
            await metadata.close()
    except MetadataError as error:
        raise CommandFailed(str(error)) from None


def _of_settings(settings: "BrokerSettings") -> Metadata:
    if settings.odradek_metadata_store == "zookeeper":
        if settings.zookeeper_connect is None:
            raise CommandFailed("zookeeper.connect is not set; name the ensemble, as in host:2181")
        return _ensemble(settings.zookeeper_connect, settings)
    path = settings.odradek_metadata_path
    if settings.odradek_metadata_store == "socket" and path is not None:
        if _is_answered(path):
            from odradek.metadata.remote import SocketMetadata

            return SocketMetadata(path, World())
        # The file that `odradek up` serves at this socket.
        path = f"{os.path.dirname(path)}/{_FILE}"
    from odradek.metadata.sqlite import SqliteMetadata

    path = path or f"{settings.data_directories[0]}/{_FILE}"
    try:
        OsDisk().make_directories(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise CommandFailed(f"cannot make {os.path.dirname(path)}: {error.strerror}") from None
    return SqliteMetadata(path, World(), has_durable_sessions=True)


def _find(address: str, copies: str, zookeeper_file: str | None) -> tuple[Metadata, bool]:
    """Returns the store, and whether it is a copy, which is made in the directory `copies`."""
    if not os.path.isdir(address):
        return _ensemble(address, zookeeper_settings(zookeeper_file)), False
    directory = os.path.abspath(address)
    places = [directory]
    if os.path.basename(directory).startswith("broker-"):
        places.append(os.path.dirname(directory))
    for place in places:
        if _is_answered(f"{place}/{_SOCKET}"):
            from odradek.metadata.remote import SocketMetadata

            return SocketMetadata(f"{place}/{_SOCKET}", World()), False
        if os.path.exists(f"{place}/{_FILE}"):
            from odradek.metadata.sqlite import SqliteMetadata

            _copy_file(place, copies)
            path = f"{copies}/{_FILE}"
            return SqliteMetadata(path, World(), has_durable_sessions=True), True
    raise CommandFailed(
        f"{directory} has no metadata store; give the data directory of `odradek up`, or"
        " HOST:PORT of a ZooKeeper ensemble"
    )


def _ensemble(address: str, settings: "BrokerSettings") -> Metadata:
    _require_reachable(address)
    import logging

    from odradek.metadata.zookeeper import ZookeeperMetadata

    # What fails is the error of the command.
    logging.getLogger("odradek.metadata").setLevel(logging.CRITICAL)
    return ZookeeperMetadata(address, World(), security=security_of(settings))


def _is_answered(path: str) -> bool:
    """Returns whether a service listens at the socket. A crash leaves the socket behind."""
    from odradek.world.unix_sockets import socket_address

    with socket_address(path) as address, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _copy_file(source: str, target: str) -> None:
    """Copies the SQLite file and its write-ahead log, again if a broker has written meanwhile."""
    paths = [f"{source}/{name}" for name in (_FILE, f"{_FILE}-wal")]
    for _ in range(_COPIES):
        before = _signature(paths)
        for path in filter(os.path.exists, paths):
            shutil.copyfile(path, f"{target}/{os.path.basename(path)}")
        if _signature(paths) == before:
            return
    raise CommandFailed(f"{paths[0]} changes all the time; try again")


def _signature(paths: list[str]) -> list[tuple[int, int]]:
    statuses = [os.stat(path) for path in paths if os.path.exists(path)]
    return [(status.st_size, status.st_mtime_ns) for status in statuses]


def _require_reachable(address: str) -> None:
    """Raises at once if no server of the ensemble can be reached; the client would try for long."""
    if why := why_unreachable(address):
        raise CommandFailed(
            f"no ZooKeeper server at {address}: {why}; brokers of `odradek up` keep the same nodes"
            " in their data directory: odradek zookeeper-shell ./odradek-data ls /"
        )


def why_unreachable(address: str) -> str | None:
    """Returns why no server of the ensemble can be reached, or None if one can."""
    why = "no address"
    for server in address.partition("/")[0].split(","):
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise UsageError(f"{address} is neither a directory nor an address like localhost:2181")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            return None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
    return why
