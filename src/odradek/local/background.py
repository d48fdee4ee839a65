"""The actions of `odradek local`: starts `odradek up` in the background, finds it again, stops
it."""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

from odradek.local.cluster_directory import (
    BrokerDirectory,
    brokers_in,
    known_address,
    read_pid,
    remove_pid,
    running_broker,
    write_pid,
)
from odradek.local.growth import GROWTH_FILE, is_lone
from odradek.local.platform import is_running, running_services, secured_services
from odradek.local.processes import is_alive, wait_until
from odradek.local.securing import SecuredDirectory
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.files import cannot_create, not_permitted
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json, table
from odradek.world.disk import OsDisk

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 120.0
_NOT_RUNNING = 3
_DEFAULT_PLACES = ("odradek-local", "odradek-data")
_READY = re.compile(r"^odradek is ready at (\S+) ", re.MULTILINE)


class BackgroundCluster:
    """A cluster in the background, known by its files."""

    def __init__(self, data: str) -> None:
        self.disk = OsDisk()
        self.data = os.path.abspath(data)
        self.pid_path = f"{self.data}/up.pid"
        self.log_path = f"{self.data}/up.log"
        if (line := not_permitted(self.data)) is not None:
            raise CommandFailed(line)

    def running(self) -> int | None:
        pid = read_pid(self.disk, self.pid_path)
        return pid if pid is not None and is_alive(pid) and _is_ours(pid) else None

    def log_text(self, since: int = 0) -> str:
        """Returns the output of the cluster, from a position in the file on."""
        try:
            return self.disk.read(self.log_path)[since:].decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def launch(self, command: list[str], timeout_s: float) -> tuple[int, str]:
        """Starts a process in the background that becomes the cluster, and waits until the cluster
        is ready. Returns its process id and the addresses of the brokers."""
        try:
            self.disk.make_directories(self.data)
            log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise CommandFailed(cannot_create(error, "--data ./odradek-local")) from None
        before = os.fstat(log).st_size
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        os.close(log)
        previous = self.running()
        write_pid(self.disk, self.pid_path, process.pid)
        in_time = wait_until(
            lambda: _READY.search(self.log_text(before)) is not None or process.poll() is not None,
            timeout_s,
        )
        ready = _READY.search(self.log_text(before))
        if ready is None:
            if process.poll() is None:
                process.terminate()
            remove_pid(self.disk, self.pid_path, process.pid)
            if previous is not None and is_alive(previous):
                write_pid(self.disk, self.pid_path, previous)
            raise CommandFailed(
                f"the cluster did not start{'' if in_time else f' within {timeout_s:.0f} s'}:"
                f" {self._last_words(before)}"
            )
        # The child goes on without this process. Without this line Python would warn that it still
        # runs.
        process.returncode = 0
        return process.pid, ready[1]

    def _last_words(self, since: int) -> str:
        lines = self.log_text(since).strip().splitlines()
        return re.sub(r"^odradek [a-z ]+: ", "", lines[-1]) if lines else "it said nothing"

    def brokers(self) -> list[tuple[BrokerDirectory, int | None, str]]:
        """Returns each broker with its process id, if it runs, and its address."""
        found = []
        for number in brokers_in(self.disk, self.data):
            directory = f"{self.data}/broker-{number}"
            listeners = read_properties(f"{directory}/server.properties").get("listeners", "")
            address = listeners.partition("://")[2]
            broker = BrokerDirectory(number, directory, int(address.rpartition(":")[2] or 0))
            found.append((broker, running_broker(self.disk, directory), address))
        if not found and is_lone(self.disk, self.data):
            address = known_address(self.disk, self.data) or ""
            broker = BrokerDirectory(1, self.data, int(address.rpartition(":")[2] or 0))
            found.append((broker, running_broker(self.disk, self.data), address))
        return found


def _is_ours(pid: int) -> bool:
    """Returns whether the process is `odradek up`. The system may have given its id to another
    program, so on Linux its command line is checked."""
    try:
        return b"odradek" in OsDisk().read(f"/proc/{pid}/cmdline")
    except OSError:
        return True


def start(arguments: argparse.Namespace) -> int:
    cluster = BackgroundCluster(arguments.data)
    pid = cluster.running()
    if pid is not None:
        more = ""
        if arguments.brokers > 1 and is_lone(cluster.disk, cluster.data):
            more = f"; `odradek local grow{_data_flag(arguments)}` makes it a cluster"
        noun = "broker" if more else "cluster"
        raise CommandFailed(f"a {noun} is running in {cluster.data} already (process {pid}){more}")
    # The output of this start alone.
    with suppress(OSError):
        cluster.disk.remove(cluster.log_path)
    pid, bootstrap = cluster.launch(_command(arguments, cluster), _START_TIMEOUT_S)
    if arguments.platform:
        _wait_for_services(cluster, pid)
    if arguments.json:
        print_json({"bootstrap": bootstrap, "pid": pid, "data": cluster.data})
    else:
        print(
            f"odradek is ready at {bootstrap} (data in {cluster.data});"
            f" odradek local stop{_data_flag(arguments)} stops it"
        )
        secured = SecuredDirectory(cluster.disk, cluster.data)
        if secured.is_made:
            print(secured.announcement())
        services = secured_services(cluster.data, bootstrap, is_asked=False)
        if services is not None and arguments.platform:
            urls = {
                service.name: service.url
                for service in running_services(cluster.disk, cluster.data)
            }
            print(services.announcement(urls["REST proxy"]))
    return 0


def _wait_for_services(cluster: BackgroundCluster, pid: int) -> None:
    """Returns when the services answer; raises what `odradek up` says if they cannot start."""
    wait_until(
        lambda: running_services(cluster.disk, cluster.data) != [] or not is_alive(pid),
        _START_TIMEOUT_S,
    )
    if not running_services(cluster.disk, cluster.data):
        raise CommandFailed(f"the services did not start; see {cluster.log_path}")


def _command(arguments: argparse.Namespace, cluster: BackgroundCluster) -> list[str]:
    command = [sys.executable, "-m", "odradek.cli", "up", "--data", cluster.data]
    command += ["--brokers", str(arguments.brokers), "--port", str(arguments.port)]
    command += ["--host", arguments.host]
    if arguments.zookeeper:
        command += ["--zookeeper", arguments.zookeeper]
    if arguments.secure:
        command.append("--secure")
    if arguments.platform:
        command += ["--platform", "--registry-port", str(arguments.registry_port)]
        command += ["--rest-port", str(arguments.rest_port)]
        command += ["--console-port", str(arguments.console_port)]
        command += ["--connect-port", str(arguments.connect_port)]
        command += ["--sql-port", str(arguments.sql_port)]
    if arguments.log_level:
        command += ["--log-level", arguments.log_level]
    for override in arguments.override:
        command += ["--override", override]
    return command


def _data_flag(arguments: argparse.Namespace) -> str:
    return "" if arguments.data == "./odradek-local" else f" --data {shlex.quote(arguments.data)}"


def _elsewhere(cluster: BackgroundCluster) -> str:
    """Returns where else in the working directory brokers run, if the user has named no place or
    another one."""
    for place in _DEFAULT_PLACES:
        here = os.path.abspath(place)
        if here == cluster.data:
            continue
        if BackgroundCluster(here).running() is not None:
            return f"; a cluster runs in {place}: add --data {place}"
        if running_broker(cluster.disk, here) is not None:
            return f"; a broker runs in {place}: odradek server-stop {place} stops it"
    return ""


def stop(arguments: argparse.Namespace) -> int:
    cluster = BackgroundCluster(arguments.data)
    pid = cluster.running()
    if pid is None:
        lone = running_broker(cluster.disk, cluster.data)
        how = f"odradek server-stop {shlex.quote(cluster.data)}, or Ctrl-C where it was started"
        other = f"; a single broker runs there, which you stop with: {how}" if lone else ""
        raise CommandFailed(
            f"no cluster is running in {cluster.data}{other or _elsewhere(cluster)}"
        )
    os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: not is_alive(pid), _STOP_TIMEOUT_S):
        raise CommandFailed(
            f"process {pid} does not stop; see {cluster.log_path}, or end it with kill -9 {pid}"
        )
    remove_pid(cluster.disk, cluster.pid_path, pid)
    if arguments.json:
        print_json({"stopped": True, "data": cluster.data})
    else:
        print(f"odradek has stopped (data in {cluster.data})")
    return 0


def status(arguments: argparse.Namespace) -> int:
    cluster = BackgroundCluster(arguments.data)
    supervisor = cluster.running()
    brokers = cluster.brokers()
    running = [pid for _, pid, _ in brokers if pid is not None]
    services = [
        (service, is_running(service)) for service in running_services(cluster.disk, cluster.data)
    ]
    is_whole = len(running) == len(brokers) and all(up for _, up in services)
    code = _NOT_RUNNING if not running else 0 if is_whole else 1
    if arguments.json:
        print_json(
            {
                "running": supervisor is not None,
                "pid": supervisor,
                "data": cluster.data,
                "bootstrap": ",".join(address for _, _, address in brokers),
                "brokers": [
                    {"id": broker.id, "address": address, "pid": pid, "data": broker.directory}
                    for broker, pid, address in brokers
                ],
                "services": [
                    {"name": one.name, "url": one.url, "pid": one.pid if up else None}
                    for one, up in services
                ],
            }
        )
        return code
    if not brokers:
        print(f"There is no cluster in {cluster.data}.")
        place = shlex.quote(os.path.relpath(cluster.data))
        hint(f"odradek local start --data {place} starts one{_elsewhere(cluster)}")
        return code
    rows = [
        [
            str(broker.id),
            address,
            "stopped" if pid is None else "running",
            str(pid or ""),
            broker.log_path,
        ]
        for broker, pid, address in brokers
    ]
    print(table(["BROKER", "ADDRESS", "STATE", "PROCESS", "LOG"], rows))
    if services:
        shown = [
            [one.name, one.url, "running" if up else "stopped", str(one.pid) if up else "", one.log]
            for one, up in services
        ]
        print()
        print(table(["SERVICE", "URL", "STATE", "PROCESS", "LOG"], shown))
    if cluster.disk.exists(f"{cluster.data}/{GROWTH_FILE}"):
        print(
            "hint: not every topic has its copies yet; go on with: odradek local"
            f" grow{_data_flag(arguments)}",
            file=sys.stderr,
        )
    if supervisor is None and running and not is_lone(cluster.disk, cluster.data):
        print(
            "hint: brokers run without `odradek up`; stop each with kill PROCESS", file=sys.stderr
        )
    return code
