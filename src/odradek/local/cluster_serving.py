"""Runs a cluster in the foreground for `up --brokers N`, from its flags to a clean stop."""

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from odradek.config import BrokerSettings, InvalidSetting, parse_overrides
from odradek.local.cluster_directory import (
    PID_FILE,
    BrokerDirectory,
    broker_directories,
    brokers_in,
    chosen_ports,
    known_address,
    laptop_settings,
    make_cluster_directory,
    read_pid,
    remove_pid,
    require_cluster_directory,
    running_broker,
    write_pid,
    write_settings,
)
from odradek.local.management_ports import SETTING, management_listeners
from odradek.local.processes import is_alive
from odradek.local.securing import (
    LISTENER,
    SecuredDirectory,
    advertised_host,
    secured_directory,
)
from odradek.local.serving import serve, settings_from
from odradek.local.supervisor import Child, ChildFailed, Restarts, Supervisor
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.wording import counted
from odradek.world import Randomness, SystemClock
from odradek.world.disk import OsDisk
from odradek.world.service_manager import ServiceManager

_READY_TIMEOUT_S = 60.0
_END_SESSION_S = 10.0
_SOCKET = "metadata.socket"
_STORE = "metadata store"
# How often `up` looks whether a broker that ended is back. Nothing else tells it.
_LOOK_AGAIN_S = 1.0
_LOGS = "odradek.logs.directory"


class LocalCluster:
    """The brokers of one data directory, and their metadata store unless it is a ZooKeeper
    ensemble."""

    def __init__(self, arguments: argparse.Namespace, defaults: Mapping[str, str]) -> None:
        self._disk = OsDisk()
        self._data = _absolute(arguments.data)
        self._host = (
            arguments.host if ":" not in arguments.host else f"[{arguments.host.strip('[]')}]"
        )
        self._zookeeper: str | None = arguments.zookeeper
        self._log_level: str | None = arguments.log_level
        self._defaults = {**defaults, **laptop_settings(arguments.brokers)}
        if self._zookeeper is not None:
            # A third of Kafka's default: on one machine a process that does not answer is soon
            # suspect.
            self._defaults["zookeeper.session.timeout.ms"] = "6000"
        try:
            self._overrides = parse_overrides(arguments.override)
        except InvalidSetting as problem:
            raise CommandFailed(str(problem)) from None
        for name in ("node.id", "broker.id", "listeners", "log.dirs", "log.dir", _LOGS):
            if name in self._overrides:
                raise CommandFailed(
                    f"--override {name} would be the same for every broker;"
                    " edit the server.properties of one broker instead"
                )
        require_cluster_directory(self._disk, self._data, arguments.brokers)
        self._require_idle(arguments.brokers)
        ports = chosen_ports(arguments.host, arguments.port, arguments.brokers)
        make_cluster_directory(self._disk, self._data, arguments.brokers)
        self.brokers = broker_directories(self._data, ports)
        self._secured = secured_directory(
            self._disk, self._data, arguments.host, arguments.brokers, is_asked=arguments.secure
        )
        self._listener = LISTENER if self._secured else "PLAINTEXT"
        self._management = self._management_listeners(ports)
        self._is_running = False
        self._typed: list[str] = arguments.override
        # The children do not speak for this process: the variables are gone when they are forked.
        self._manager = ServiceManager.from_environment()
        self.settings: list[BrokerSettings] = []
        self._write_settings()

    @property
    def bootstrap(self) -> str:
        host = advertised_host(self._host) if self._secured else self._host
        return ",".join(f"{host}:{broker.port}" for broker in self.brokers)

    def _advertised(self, broker: BrokerDirectory) -> dict[str, str]:
        """Returns the address that clients are told, if it is another one than that of the
        listener."""
        host = advertised_host(self._host)
        if self._secured is None or host == self._host:
            return {}
        return {"advertised.listeners": f"{self._listener}://{host}:{broker.port}"}

    def _require_idle(self, brokers: int) -> None:
        for broker in broker_directories(self._data, [0] * brokers):
            pid = running_broker(self._disk, broker.directory)
            if pid is not None:
                raise CommandFailed(
                    f"broker {broker.id} of {self._data} is running already (process {pid});"
                    f" stop it with: kill {pid}"
                )
        left_out = [number for number in brokers_in(self._disk, self._data) if number > brokers]
        if left_out:
            names = ", ".join(map(str, left_out))
            print(
                f"warning: {self._data} has broker {names} too, which --brokers {brokers} does not"
                " start",
                file=sys.stderr,
            )

    def _management_listeners(self, ports: list[int]) -> list[str]:
        if SETTING not in self._overrides:
            return management_listeners(ports)
        if self._overrides[SETTING]:
            raise CommandFailed(
                f"--override {SETTING} would be the same for every broker; name the first port with"
                f" JMX_PORT=9999, or turn it off with --override {SETTING}="
            )
        return [""] * len(ports)

    def _write_settings(self) -> None:
        for broker, listener in zip(self.brokers, self._management, strict=True):
            decided = {
                "node.id": str(broker.id),
                "listeners": f"{self._listener}://{self._host}:{broker.port}",
                "log.dirs": broker.directory,
                SETTING: listener,
                **self._advertised(broker),
                **self._store_settings(),
                **self._overrides,
            }
            required = self._secured.broker_settings(broker.id) if self._secured else {}
            write_settings(self._disk, broker, decided, self._defaults, required=required)
        said: set[str] = set()
        for broker in self.brokers:
            # The files are read back, so that an invalid setting is reported before anything
            # starts.
            properties = read_properties(broker.properties_path)
            self.settings.append(settings_from(properties, self._typed, said=said))
            # Warnings about overrides are the same for every broker, so they are printed once.
            self._typed = []

    def _store_settings(self) -> dict[str, str]:
        if self._zookeeper is not None:
            return {
                "odradek.metadata.store": "zookeeper",
                "zookeeper.connect": self._zookeeper,
            }
        return {
            "odradek.metadata.store": "socket",
            "odradek.metadata.path": f"{self._data}/{_SOCKET}",
        }

    # Running

    def run(self, *, until_input_closes: bool) -> int:
        """Runs the cluster until it is told to stop. Returns the exit code."""
        # Imported before the fork, so that the brokers share it.
        import odradek.broker
        import odradek.local.metadata_serving
        from odradek.world.event_loop import fastest_loop

        if self._zookeeper is None:
            import odradek.metadata.remote
        else:
            import odradek.metadata.zookeeper  # noqa: F401

        fastest_loop()
        if self._secured is not None:
            self._write_users(self._secured)
        with Supervisor() as supervisor:
            if until_input_closes:
                supervisor.stop_when_input_closes()
            store = None if self._zookeeper is not None else self._store_child()
            if store is not None:
                supervisor.start(store)
            brokers = [self._broker_child(broker) for broker in self.brokers]
            for broker, child in zip(self.brokers, brokers, strict=True):
                supervisor.start(child)
                write_pid(self._disk, f"{broker.directory}/{PID_FILE}", child.pid)
            self._is_running = True
            try:
                children = brokers if store is None else [store, *brokers]
                supervisor.require_ready(children, _READY_TIMEOUT_S)
                if not supervisor.stops:
                    self._announce(brokers)
                    self._watch(supervisor, store, brokers)
            except ChildFailed as failure:
                self._stop(supervisor, store, brokers)
                raise CommandFailed(str(failure)) from None
            self._stop(supervisor, store, brokers)
        print("odradek has stopped", flush=True)
        return 0

    def _write_users(self, secured: SecuredDirectory) -> None:
        """Writes the first users before any broker starts: brokers log in to each other. A cluster
        that has them only gets its addresses into the files of clients."""
        if secured.needs_users:
            from odradek.local.first_users import write_first_passwords

            write_first_passwords(
                f"{self._data}/metadata.sqlite",
                self._zookeeper,
                self.settings[0],
                secured.first_passwords(),
            )
        secured.write_client_files(self.bootstrap)

    def _announce(self, brokers: list[Child]) -> None:
        for broker, child in zip(self.brokers, brokers, strict=True):
            print(f"broker {broker.id} is ready at {child.ready} (process {child.pid}, data in"
                  f" {broker.directory})")  # fmt: skip
        urls = " ".join(filter(None, self._management))
        print(
            f"odradek is ready at {self.bootstrap} ({counted(len(brokers), 'broker')},"
            f" data in {self._data}{urls and f', metrics at {urls}'}); Ctrl-C stops it",
            flush=True,
        )
        if self._secured is not None:
            print(self._secured.announcement(), flush=True)
        self._manager.ready(f"{counted(len(brokers), 'broker')} ready at {self.bootstrap}")

    def _watch(self, supervisor: Supervisor, store: Child | None, brokers: list[Child]) -> None:
        """Reports every broker that ends, and restarts the store, until the cluster is told to
        stop."""
        ended: set[int] = set()
        by_hand = BrokersByHand(self._disk)
        restarts = Restarts(SystemClock())
        beat_s = self._manager.interval_s if self._manager.is_there else None
        while True:
            self._manager.beat()
            supervisor.wait_until(
                lambda: (
                    supervisor.stops
                    or (store is not None and not store.is_running)
                    or any(not broker.is_running and broker.pid not in ended for broker in brokers)
                ),
                _LOOK_AGAIN_S if ended else beat_s,
            )
            if supervisor.stops:
                return
            for broker, child in zip(self.brokers, brokers, strict=True):
                if not child.is_running and child.pid not in ended:
                    ended.add(child.pid)
                    self._report_end(broker, child)
                elif not child.is_running:
                    by_hand.report(broker)
            if store is not None and not store.is_running:
                print(f"the {_STORE} ended ({store.ending()}); starting it again", flush=True)
                supervisor.wait_until(lambda: supervisor.stops, restarts.next_delay_s())
                supervisor.start(store)

    def _report_end(self, broker: BrokerDirectory, child: Child) -> None:
        if self._zookeeper is not None:
            self._end_session(broker, child)
        remove_pid(self._disk, f"{broker.directory}/{PID_FILE}", child.pid)
        if child.exit_status == 0:
            how = "has stopped"
        else:
            logs = self.settings[broker.id - 1].application_log_directory
            log = child.output_path if logs is None else f"{logs}/server.log"
            how = f"died ({child.ending()}); its log is {log}"
        print(
            f"broker {broker.id} {how}; bring it back with: odradek broker"
            f" {shlex.quote(broker.properties_path)}",
            flush=True,
        )

    def _end_session(self, broker: BrokerDirectory, child: Child) -> None:
        """Ends the session of a broker that has crashed, so that the other brokers need not wait
        for the session timeout."""
        from odradek.metadata.kazoo_bridge import end_session
        from odradek.metadata.remembered_session import FILE_NAME, RememberedSession
        from odradek.metadata.zookeeper_security import zookeeper_security

        key = RememberedSession(self._disk, f"{broker.directory}/{FILE_NAME}").read()
        # Read after the session: a broker that was restarted by hand writes its pid before its
        # session.
        is_of_child = read_pid(self._disk, f"{broker.directory}/{PID_FILE}") == child.pid
        if key is None or not is_of_child or self._zookeeper is None:
            return
        hosts = self._zookeeper.partition("/")[0]
        try:
            security = zookeeper_security(self.settings[broker.id - 1], self._disk, Randomness())
        except InvalidSetting:
            # Its files have changed since the broker started; its session expires by itself.
            return
        # In a thread, because the call blocks while the ensemble does not answer.
        threading.Thread(
            target=end_session,
            args=(hosts, _END_SESSION_S, key, security),
            name="end-session",
            daemon=True,
        ).start()

    def _stop(self, supervisor: Supervisor, store: Child | None, brokers: list[Child]) -> None:
        """Stops one broker after the other, so that each can move its leadership to others, and the
        store last."""
        self._manager.stopping("stopping one broker after the other")
        for broker, child in reversed(list(zip(self.brokers, brokers, strict=True))):
            self._manager.beat()
            if child.is_running:
                supervisor.stop(child)
            else:
                self._stop_by_hand(supervisor, broker)
            remove_pid(self._disk, f"{broker.directory}/{PID_FILE}", child.pid)
        if store is not None:
            supervisor.stop(store)

    def _stop_by_hand(self, supervisor: Supervisor, broker: BrokerDirectory) -> None:
        """Stops a broker that was restarted by hand, because it cannot run without the store."""
        pid = running_broker(self._disk, broker.directory)
        if pid is None or self._zookeeper is not None:
            return
        os.kill(pid, signal.SIGTERM)
        for _ in range(300):
            if supervisor.is_stopping_at_once or not is_alive(pid):
                return
            supervisor.wait_until(lambda: supervisor.is_stopping_at_once, 0.1)

    # Children

    def _broker_child(self, broker: BrokerDirectory) -> Child:
        settings = self.settings[broker.id - 1]

        def main(on_ready: Callable[[str], None]) -> int:
            return serve(
                settings,
                log_level=self._log_level,
                until_input_closes=True,
                on_ready=on_ready,
            )

        return Child(f"broker {broker.id}", main, f"{broker.directory}/server.out")

    def _store_child(self) -> Child:
        def main(on_ready: Callable[[str], None]) -> int:
            from odradek.local.metadata_serving import serve_metadata

            return serve_metadata(
                f"{self._data}/metadata.sqlite",
                f"{self._data}/{_SOCKET}",
                log_level=self._log_level or "INFO",
                log_path=f"{self._data}/metadata.log",
                on_ready=on_ready,
                is_deserted=self._is_deserted,
                forgets_sessions=not self._is_running,
            )

        return Child(_STORE, main, f"{self._data}/metadata.out")

    def _is_deserted(self) -> bool:
        return all(running_broker(self._disk, broker.directory) is None for broker in self.brokers)


class BrokersByHand:
    """Reports brokers that ended and were started again with `odradek broker`, and their end."""

    def __init__(self, disk: OsDisk) -> None:
        self._disk = disk
        self._running: dict[int, int] = {}

    def report(self, broker: BrokerDirectory) -> None:
        """Prints a line if the broker is back, or has ended again, since the last call."""
        pid = running_broker(self._disk, broker.directory)
        before = self._running.pop(broker.id, None)
        if pid is not None:
            self._running[broker.id] = pid
        if pid == before:
            return
        if pid is None:
            print(
                f"broker {broker.id} has ended again; bring it back with: odradek broker"
                f" {shlex.quote(broker.properties_path)}",
                flush=True,
            )
            return
        address = known_address(self._disk, broker.directory)
        at = f" at {address}" if address else ""
        print(f"broker {broker.id} is back{at} (process {pid})", flush=True)


def _absolute(path: str) -> str:
    return os.path.abspath(path)
