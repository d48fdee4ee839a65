"""Stops brokers and ZooKeeper servers of this machine, for `server-stop` and
`zookeeper-server-stop`.

No process is signalled unless it is certainly ours:

- a broker holds the lock of its data directory, and `broker.pid` there names it;
- the supervisor of a cluster (`odradek up --brokers 3`) is the parent of its brokers and runs our
  command; it is signalled in place of its brokers if all of them are to stop;
- a ZooKeeper server that we started has a mark of ours on its command line.

Running processes are looked up in /proc. Where there is none, directories have to be named.
"""

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.local.cluster_directory import brokers_in, running_broker
from odradek.local.processes import is_alive, wait_until
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.files import not_permitted
from odradek.world.disk import OsDisk

ZOOKEEPER_MARK: Final = "-Dodradek.zookeeper=started"

_STOP_TIMEOUT_S: Final = 120.0
_LOCK_NAME: Final = "/.lock"


def stop_brokers(names: Sequence[str], *, every_cluster: bool = False) -> int:
    """Stops the brokers of these directories or settings files, or all that run. Returns the exit
    code when they have stopped."""
    running = _named(names) if names else _found()
    if not running:
        raise CommandFailed(
            f"no broker runs in {', '.join(names)}"
            if names
            else "no broker to stop: none of this user runs here with a data directory"
        )
    if not names and not every_cluster:
        _require_one_cluster(running)
    for pid in _signalled(running):
        _send(pid)
    for directory, pid in running.items():
        _wait_for(pid, f"the broker in {directory}")
        print(f"the broker in {directory} has stopped (process {pid})", flush=True)
    return 0


def _require_one_cluster(running: Iterable[str]) -> None:
    """Raises if brokers of several clusters run: only the user knows which of them is meant."""
    clusters = {_cluster_id(directory): directory for directory in running}
    if len(clusters) > 1:
        raise CommandFailed(
            f"brokers of {len(clusters)} clusters run here; name the directories to stop"
            f" ({', '.join(sorted(clusters.values()))}), or give --all"
        )


def _cluster_id(directory: str) -> str:
    try:
        return read_properties(f"{directory}/meta.properties").get("cluster.id", directory)
    except OSError:
        return directory


def _named(names: Iterable[str]) -> dict[str, int]:
    """Returns the running brokers of directories or settings files, by directory."""
    disk = OsDisk()
    found = {}
    for name in names:
        for directory in _directories(name):
            pid = running_broker(disk, directory)
            if pid is not None:
                found[directory] = pid
    return found


def _directories(name: str) -> list[str]:
    path = os.path.abspath(name)
    if os.path.isfile(path):
        properties = read_properties(path)
        kept = properties.get("log.dirs") or properties.get("log.dir") or ""
        return [os.path.abspath(part.strip()) for part in kept.split(",") if part.strip()]
    if (line := not_permitted(path)) is not None:
        raise CommandFailed(line)
    if not os.path.isdir(path):
        raise CommandFailed(
            f"{name} is neither a data directory nor a settings file of a broker; `odradek"
            " server-stop` alone stops the broker of this directory"
        )
    members = brokers_in(OsDisk(), path)
    return [f"{path}/broker-{number}" for number in members] or [path]


def _found() -> dict[str, int]:
    """Returns the running brokers of this user on this machine, by their first directory."""
    disk = OsDisk()
    found = {}
    for pid in _own_processes():
        for target in _open_files(pid):
            directory = target.removesuffix(_LOCK_NAME)
            if target.endswith(_LOCK_NAME) and running_broker(disk, directory) == pid:
                found[directory] = pid
    return dict(sorted(found.items()))


def _signalled(running: dict[str, int]) -> list[int]:
    """Returns the processes to signal: a cluster's supervisor if all its brokers are to stop."""
    pids = set(running.values())
    chosen: dict[int, None] = {}
    for pid in running.values():
        parent = _parent(pid)
        is_whole = parent is not None and _is_supervisor(parent) and _children(parent) <= pids
        chosen[parent if is_whole and parent is not None else pid] = None
    return list(chosen)


def _children(parent: int) -> set[int]:
    """Returns the brokers among the children of a supervisor; its other child is the store."""
    brokers = set(_found().values())
    return {pid for pid in brokers if _parent(pid) == parent}


def _is_supervisor(pid: int) -> bool:
    words = _command_line(pid)
    return "up" in words and any("odradek" in word for word in words[: words.index("up")])


def stop_zookeepers(configs: list[str]) -> int:
    """Stops the ZooKeeper servers that we started, or those of these configuration files."""
    if not os.path.isdir("/proc/self"):
        raise CommandFailed("servers cannot be found on this system; end them with Ctrl-C or kill")
    wanted = {os.path.realpath(config) for config in configs}
    running = {
        pid: words[-1]
        for pid in _own_processes()
        if ZOOKEEPER_MARK in (words := _command_line(pid))
        and (not wanted or os.path.realpath(words[-1]) in wanted)
    }
    if not running:
        which = f"with {', '.join(configs)}" if configs else "that odradek started"
        raise CommandFailed(f"no ZooKeeper server {which} runs here")
    for pid in running:
        _send(pid)
    for pid, config in running.items():
        _wait_for(pid, f"the server of {config}")
        print(f"the ZooKeeper server of {config} has stopped (process {pid})", flush=True)
    return 0


# Processes


def _own_processes() -> list[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    own = []
    for name in names:
        try:
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                own.append(int(name))
        except OSError:
            continue  # The process has ended meanwhile.
    return own


def _open_files(pid: int) -> list[str]:
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.append(_link(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass  # The process has ended meanwhile.
    return found


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _command_line(pid: int) -> list[str]:
    try:
        text = OsDisk().read(f"/proc/{pid}/cmdline").decode("utf-8", "replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0")


def _parent(pid: int) -> int | None:
    try:
        after_name = OsDisk().read(f"/proc/{pid}/stat").rpartition(b")")[2]
        return int(after_name.split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _send(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CommandFailed(
            f"process {pid} belongs to another user; stop it as that user"
        ) from None


def _wait_for(pid: int, what: str, timeout_s: float = _STOP_TIMEOUT_S) -> None:
    if not wait_until(lambda: not is_alive(pid), timeout_s):
        print(f"{what} does not stop; end it with: kill -9 {pid}", file=sys.stderr)
        raise CommandFailed(f"{what} (process {pid}) did not stop within {timeout_s:.0f} s")
