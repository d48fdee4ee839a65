"""The directories of the brokers of `odradek up --brokers N`, and their settings files.

    D/metadata.sqlite     the metadata store
    D/broker-1/           one broker: its partitions, and
        server.properties     its settings: `odradek broker` starts it from this file alone
        broker.pid            while it runs
        server.log            its application log

A settings file is written once. Later starts change only settings that the command line decides
(addresses, directories, overrides), so that a user's own changes stay.
"""

import errno
import os
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from odradek.config.properties import parse_properties
from odradek.local.processes import is_alive
from odradek.tools.failures import CommandFailed, UsageError
from odradek.wording import counted
from odradek.world.disk import Disk

PID_FILE = "broker.pid"
# `odradek.storage` holds a lock on this file for as long as a broker uses the log directory.
LOCK_FILE = ".lock"
# Holds a single broker's data while `odradek local grow` moves it (`local/growth.py`).
STAGING = ".growing"
_BROKER_DIRECTORY = re.compile(r"broker-([1-9][0-9]*)")
_HIGHEST_PORT = 65535
_READY = re.compile(r"broker \d+ is ready at (\S+?), ")


class BrokerDirectory(NamedTuple):
    """One broker of a cluster on this machine."""

    id: int
    directory: str
    port: int

    @property
    def properties_path(self) -> str:
        return f"{self.directory}/server.properties"

    @property
    def log_path(self) -> str:
        """The path of its log file, unless its settings name another one."""
        return f"{self.directory}/server.log"


def broker_directories(data: str, ports: Iterable[int]) -> list[BrokerDirectory]:
    data = data.rstrip("/") or "/"
    return [
        BrokerDirectory(number, f"{data}/broker-{number}", port)
        for number, port in enumerate(ports, start=1)
    ]


def brokers_in(disk: Disk, data: str) -> list[int]:
    """Returns the ids of the brokers that have a directory below `data`."""
    try:
        names = disk.list_directory(data)
    except OSError:
        return []
    found = [_BROKER_DIRECTORY.fullmatch(name) for name in names]
    return sorted(
        int(match[1])
        for match in found
        if match and disk.exists(f"{data}/{match[0]}/server.properties")
    )


def require_cluster_directory(disk: Disk, data: str, brokers: int) -> None:
    """Raises if a single broker uses the directory."""
    require_not_growing(disk, data)
    if disk.exists(f"{data}/meta.properties"):
        raise CommandFailed(
            f"{data} holds the data of a single broker; make it a cluster of"
            f" {counted(brokers, 'broker')} with `odradek local grow --data {shlex.quote(data)}"
            f"{'' if brokers == 3 else f' --brokers {brokers}'}`, start it as it is with"
            f" `odradek up --data {shlex.quote(data)}`, or choose another directory with --data"
        )


def make_cluster_directory(disk: Disk, data: str, brokers: int) -> None:
    """Makes the directories of brokers, after everything else was checked: a single broker would
    take a directory `broker-1` that is left over for a partition."""
    try:
        for number in range(1, brokers + 1):
            disk.make_directories(f"{data}/broker-{number}")
    except OSError as error:
        raise CommandFailed(
            f"cannot make directories in {data}: {error.strerror}; choose another with --data"
        ) from None


def require_lone_directory(disk: Disk, data: str) -> None:
    """Raises if the directory holds a cluster: a single broker would take `broker-1` for partition
    1 of a topic `broker`."""
    require_not_growing(disk, data)
    known = brokers_in(disk, data)
    if known:
        raise CommandFailed(
            f"{data} holds a cluster of {counted(max(known), 'broker')}; start it with"
            f" --brokers {max(known)}, or choose another directory with --data"
        )


def require_not_growing(disk: Disk, data: str) -> None:
    """Raises if `odradek local grow` was interrupted while it moved the data of a single broker."""
    if disk.exists(f"{data}/{STAGING}"):
        raise CommandFailed(
            f"the data in {data} is being moved into a cluster; go on with"
            f" `odradek local grow --data {data}`"
        )


@contextmanager
def temporary_directory() -> Iterator[str]:
    """Yields a temporary directory, in memory (/dev/shm) if the system has that, and deletes it
    afterwards."""
    from tempfile import TemporaryDirectory

    parent = "/dev/shm"  # noqa: S108 - a directory of its own is made there
    with TemporaryDirectory(
        prefix="odradek-", dir=parent if os.access(parent, os.W_OK) else None
    ) as directory:
        yield directory


# Ports


class PortInUse(CommandFailed):
    """Another program, perhaps a broker, listens at a port already."""

    def __init__(self, message: str, port: int) -> None:
        super().__init__(message)
        self.port = port


def chosen_ports(host: str, first: int, brokers: int) -> list[int]:
    """Returns a free port for each broker. With `first` = 0 the system chooses them."""
    requested = [first + index if first else 0 for index in range(brokers)]
    if requested[-1] > _HIGHEST_PORT:
        raise UsageError(
            f"--port {first} with --brokers {brokers} would need port {requested[-1]};"
            f" ports end at {_HIGHEST_PORT}"
        )
    held: list[socket.socket] = []
    try:
        for port in requested:
            held.append(_bound(host, port))
        return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()


def _bound(host: str, port: int) -> socket.socket:
    address = host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # As the broker does, so that a port with connections in TIME_WAIT is treated as free.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        # With SO_REUSEADDR two sockets may be bound to one port, but only one of them may listen.
        listener.listen(1)
    except OSError as error:
        listener.close()
        if isinstance(error, socket.gaierror) or not port:
            raise CommandFailed(f"cannot listen on {host}: {error.strerror}") from None
        said = (
            f"cannot listen on {host}:{port}: {error.strerror}; stop what uses port {port},"
            " or choose other ports with --port"
        )
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(said, port) from None
        raise CommandFailed(said) from None
    return listener


def known_address(disk: Disk, directory: str) -> str | None:
    """Returns where the broker of a directory was last ready, by its application log."""
    for name in ("server.log", "server.log.1"):
        try:
            said = _READY.findall(disk.read(f"{directory}/{name}").decode("utf-8", "replace"))
        except OSError:
            continue
        if said:
            return str(said[-1])
    return None


# Settings


def laptop_settings(brokers: int) -> dict[str, str]:
    """Returns settings for a small cluster: with three or more brokers, three replicas and
    min.insync.replicas=2."""
    copies = str(min(3, brokers))
    durable = "2" if brokers >= 3 else "1"
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": durable,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": durable,
    }


def write_settings(
    disk: Disk,
    broker: BrokerDirectory,
    decided: Mapping[str, str],
    defaults: Mapping[str, str],
    *,
    required: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> None:
    """Writes a broker's settings file. `decided` is always written, `defaults` only into a new
    file, and a setting of `required` if the file lacks it. `directory` is given while the broker's
    directory has another name."""
    path = broker.properties_path if directory is None else f"{directory}/server.properties"
    before = disk.read(path).decode("utf-8", "replace") if disk.exists(path) else None
    needed = dict(required or {})
    if before is not None:
        lacking = needed.keys() - parse_properties(before).keys()
        text = with_settings(before, {name: needed[name] for name in needed if name in lacking})
        text = with_settings(text, decided)
    else:
        opening = (
            f"# Broker {broker.id} of a cluster on this machine, written by `odradek up`."
            " Yours to edit.\n"
            f"# odradek broker {shlex.quote(broker.properties_path)} starts it by hand.\n"
        )
        text = with_settings(opening, {**decided, **defaults, **needed, **decided})
    if text != before:
        disk.replace(path, text.encode())


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """Returns the text of a properties file with these settings changed. Other lines stay as they
    are."""
    lines = text.splitlines()
    missing = dict(settings)
    for index, line in enumerate(lines):
        key = re.split(r"[=:\s]", line.strip(), maxsplit=1)[0]
        if key in settings:
            lines[index] = f"{key}={_escaped(settings[key])}"
            missing.pop(key, None)
    lines += [f"{key}={_escaped(value)}" for key, value in missing.items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


# Processes


def running_broker(disk: Disk, directory: str) -> int | None:
    """Returns the id of the process that uses a broker's directory; None if no process does."""
    pid = read_pid(disk, f"{directory}/{PID_FILE}")
    if pid is None or not is_alive(pid):
        return None
    # The system may have given the id to another process by now. Only a broker holds the lock.
    try:
        disk.lock(f"{directory}/{LOCK_FILE}").release()
    except BlockingIOError:
        return pid
    except OSError:
        return None
    return None


def require_usable_directory(disk: Disk, directory: str) -> None:
    """Raises if a running broker uses the directory, or if it cannot be made or written to."""
    pid = running_broker(disk, directory)
    if pid is not None:
        address = known_address(disk, directory)
        at = f" at {address}" if address else ""
        raise CommandFailed(
            f"{directory} is in use: a broker runs there{at} (process {pid}); use that one, stop it"
            f" with `odradek server-stop {shlex.quote(directory)}`, or choose another directory"
        )
    try:
        disk.make_directories(directory)
        why = None if os.access(directory, os.W_OK | os.X_OK) else "Permission denied"
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        why = "there is a file of that name" if is_file else error.strerror
    if why is not None:
        raise CommandFailed(
            f"cannot write to {directory}: {why}; choose another directory (--data of `odradek up`,"
            " log.dirs in a settings file), or let this user write there"
        )


def read_pid(disk: Disk, path: str) -> int | None:
    try:
        return int(disk.read(path).decode())
    except (OSError, ValueError):
        return None


def write_pid(disk: Disk, path: str, pid: int) -> None:
    """Writes a pid file without fsync: no process survives a power loss."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [f"{pid}\n".encode()])
    finally:
        file.close()


def remove_pid(disk: Disk, path: str, pid: int) -> None:
    """Removes a pid file, unless another process has written its own id."""
    if read_pid(disk, path) == pid:
        disk.remove(path)
