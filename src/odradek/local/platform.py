"""Runs the brokers and the HTTP services on this machine together, for `odradek up --platform`.

    this process        starts, watches and stops the others; no event loop, no threads
    ├── the brokers     what `odradek up` runs without the flag, with its own supervisor for several
    ├── the registry    http://127.0.0.1:8081, or https in a secured directory
    ├── the REST proxy  http://127.0.0.1:8082
    ├── Connect         http://127.0.0.1:8083, a worker without connectors at first
    ├── SQL             http://127.0.0.1:8088, if its extra is installed
    └── the console     http://127.0.0.1:8080, if its extra is installed

All start at once: the services wait for the brokers themselves. A service that ends
is started again; when the brokers end, everything ends. Stopping goes the other way round, so that
no service loses its brokers. Services listen on this machine only, whatever `--host` says.
What `securing_services` has for them is made by the processes of the services, when the brokers'
process has made the rest.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.local.processes import is_alive
from odradek.local.securing import SecuredDirectory
from odradek.local.securing_services import SecuredServices
from odradek.local.supervisor import Child, ChildFailed, Restarts, Supervisor
from odradek.tools.failures import CommandFailed
from odradek.world import Disk, SystemClock
from odradek.world.disk import OsDisk

FILE: Final = "platform.json"
_READY_TIMEOUT_S: Final = 60.0
_BROKERS: Final = "brokers"
_PORT_FLAGS: Final = {
    "schema registry": "--registry-port",
    "REST proxy": "--rest-port",
    "Connect worker": "--connect-port",
    "SQL server": "--sql-port",
    "console": "--console-port",
}
_LOOPBACK: Final = "127.0.0.1"


class RunningService(NamedTuple):
    """A service as `odradek local status` shows it."""

    name: str
    url: str
    pid: int
    log: str


def running_services(disk: Disk, data: str) -> list[RunningService]:
    """Returns the services of a data directory, running or not; none without `--platform`."""
    try:
        found = json.loads(disk.read(f"{data}/{FILE}"))
        return [RunningService(**one) for one in found]
    except (OSError, ValueError, TypeError):
        return []


def is_running(service: RunningService) -> bool:
    return service.pid > 0 and is_alive(service.pid)


class Platform:
    """The processes of `up --platform`."""

    def __init__(self, arguments: argparse.Namespace, run_brokers: Callable[[], int]) -> None:
        self._run_brokers = run_brokers
        self._data = "" if arguments.memory else os.path.abspath(arguments.data)
        self._logs = self._data or tempfile.gettempdir()
        self._bootstrap = f"{_client_host(arguments.host)}:{arguments.port}"
        self._replicas = min(3, arguments.brokers)
        self._secured = secured_services(self._data, self._bootstrap, is_asked=arguments.secure)
        self._scheme = "http" if self._secured is None else "https"
        self._ports = {
            "schema registry": arguments.registry_port,
            "REST proxy": arguments.rest_port,
            "Connect worker": arguments.connect_port,
            "SQL server": arguments.sql_port,
            "console": arguments.console_port,
        }
        self._restarts: dict[str, Restarts] = {}

    def run(self, *, until_input_closes: bool) -> int:
        # Imported before the fork, so that the processes share their pages.
        import odradek.broker
        import odradek.connect.worker.server
        import odradek.registry.server
        import odradek.rest.service
        from odradek.console import missing as console_missing
        from odradek.sql import missing as sql_missing

        without_console, without_sql = console_missing(), sql_missing()
        if without_console is None:
            import odradek.console.service
        if without_sql is None:
            # The language comes later, in the process that needs it.
            import odradek.sql.api.service  # noqa: F401

        if self._data:
            os.makedirs(self._data, exist_ok=True)
        with Supervisor() as supervisor:
            if until_input_closes:
                supervisor.stop_when_input_closes()
            brokers = Child(_BROKERS, lambda _: self._run_brokers(), None)
            services = [
                self._service("schema registry", self._registry),
                self._service("REST proxy", self._rest),
                self._service("Connect worker", self._connect),
            ]
            optional = (
                ("SQL server", self._sql, without_sql), ("console", self._console, without_console),
            )  # fmt: skip
            for name, serve, missing in optional:
                if missing is None:
                    services.append(self._service(name, serve))
                else:
                    print(f"there is no {name}: {missing}", flush=True)
            for child in (brokers, *services):
                supervisor.start(child)
            try:
                self._wait(supervisor, brokers, services)
                if not supervisor.stops:
                    self._announce(services)
                    self._watch(supervisor, brokers, services)
            except ChildFailed as failure:
                raise CommandFailed(str(failure)) from None
            finally:
                for child in (*reversed(services), brokers):
                    supervisor.stop(child)
                self._forget()
        return 0

    def _wait(self, supervisor: Supervisor, brokers: Child, services: list[Child]) -> None:
        """Waits until the services answer."""
        ready = supervisor.wait_until(
            lambda: (
                supervisor.stops
                or not brokers.is_running
                or any(not service.is_running for service in services)
                or all(service.ready is not None for service in services)
            ),
            _READY_TIMEOUT_S,
        )
        if supervisor.stops:
            return
        if not brokers.is_running:
            supervisor.require_ready([brokers], _READY_TIMEOUT_S)  # It says why they ended.
        supervisor.require_ready(services, 1.0 if not ready else _READY_TIMEOUT_S)

    def _announce(self, services: list[Child]) -> None:
        for child in services:
            print(f"the {child.name} is ready at {child.ready} (log {child.output_path})")
        if self._secured is not None:
            print(self._secured.announcement(services[1].ready or ""))
        *first, last = (child.name for child in services)
        names = f"{', '.join(first)} and {last}"
        print(f"the platform is ready: brokers, {names}; Ctrl-C stops all of it", flush=True)
        self._remember(services)

    def _watch(self, supervisor: Supervisor, brokers: Child, services: list[Child]) -> None:
        """Starts services that end again, until the platform is told to stop or the brokers end."""
        while True:
            supervisor.wait_until(
                lambda: (
                    supervisor.stops
                    or not brokers.is_running
                    or any(not service.is_running for service in services)
                )
            )
            if supervisor.stops or not brokers.is_running:
                return
            for child in services:
                if child.is_running:
                    continue
                print(f"the {child.name} ended ({child.ending()}); starting it again", flush=True)
                restarts = self._restarts.setdefault(child.name, Restarts(SystemClock()))
                if supervisor.wait_until(lambda: supervisor.stops, restarts.next_delay_s()):
                    return
                supervisor.start(child)
            supervisor.wait_until(
                lambda: supervisor.stops or all(service.ready is not None for service in services),
                _READY_TIMEOUT_S,
            )
            self._remember(services)

    # Children

    def _service(self, name: str, serve: Callable[[Callable[[str], None]], None]) -> Child:
        def main(on_ready: Callable[[str], None]) -> int:
            from odradek.telemetry.logs import start_logging
            from odradek.web.serving import CannotListen

            start_logging("INFO")
            try:
                serve(on_ready)
            except CannotListen as error:
                raise CannotListen(f"{error} with {_PORT_FLAGS[name]} PORT") from None
            return 0

        return Child(name, main, f"{self._logs}/{name.lower().replace(' ', '-')}.log")

    def _registry(self, on_ready: Callable[[str], None]) -> None:
        from odradek.registry.server import run_registry
        from odradek.registry.settings import SchemaRegistrySettings
        from odradek.services.running import wait_for_brokers

        async def main() -> None:
            properties = {
                "kafkastore.bootstrap.servers": self._bootstrap,
                "kafkastore.topic.replication.factor": str(self._replicas),
                "listeners": self._url("schema registry"),
                "host.name": _LOOPBACK,
            }
            if self._secured is not None:
                await self._secured.wait()
                await wait_for_brokers(self._bootstrap)
                await self._secured.prepare_registry()
                properties |= self._secured.registry_settings()
            settings = SchemaRegistrySettings.from_file(properties)
            await run_registry(settings, lambda words: print(words, flush=True), on_ready)

        _run(main)

    def _rest(self, on_ready: Callable[[str], None]) -> None:
        from odradek.rest.service import RestService
        from odradek.rest.settings import RestSettings
        from odradek.services.running import run_service, wait_for_brokers

        async def main() -> None:
            properties = {
                "bootstrap.servers": self._bootstrap,
                "listeners": self._url("REST proxy"),
                "schema.registry.url": self._url("schema registry"),
            }
            if self._secured is not None:
                await self._secured.wait()
                properties |= self._secured.rest_settings()
            settings = RestSettings.from_file(properties)
            await wait_for_brokers(self._bootstrap)
            await run_service(RestService(settings), on_ready)

        _run(main)

    def _connect(self, on_ready: Callable[[str], None]) -> None:
        from odradek.connect.worker.server import run_connect
        from odradek.connect.worker.settings import DistributedSettings
        from odradek.services.running import wait_for_brokers

        async def main() -> None:
            replicas = str(self._replicas)
            properties = {
                "bootstrap.servers": self._bootstrap,
                "listeners": self._url("Connect worker"),
                "config.storage.replication.factor": replicas,
                "status.storage.replication.factor": replicas,
                "offset.storage.replication.factor": replicas,
                "offset.storage.partitions": "5",
            }
            if self._secured is not None:
                await self._secured.wait()
                await wait_for_brokers(self._bootstrap)
                await self._secured.prepare_connect()
                properties |= self._secured.connect_settings()
            settings = DistributedSettings.from_file(properties)
            await run_connect(settings, lambda words: print(words, flush=True), on_ready)

        _run(main)

    def _sql(self, on_ready: Callable[[str], None]) -> None:
        from odradek.services.running import run_service, wait_for_brokers
        from odradek.sql.api.service import SqlService
        from odradek.sql.settings import SqlSettings

        async def main() -> None:
            properties = {
                "bootstrap.servers": self._bootstrap,
                "listeners": self._url("SQL server"),
                "ksql.internal.topic.replicas": str(self._replicas),
                "ksql.schema.registry.url": self._url("schema registry"),
                "ksql.connect.url": self._url("Connect worker"),
            }
            if self._secured is not None:
                await self._secured.wait()
                await wait_for_brokers(self._bootstrap)
                await self._secured.prepare_sql()
                properties |= self._secured.sql_settings()
            settings = SqlSettings.from_file(properties)
            await wait_for_brokers(self._bootstrap)
            await run_service(SqlService(settings), on_ready)

        _run(main)

    def _console(self, on_ready: Callable[[str], None]) -> None:
        from odradek.console.service import ConsoleService
        from odradek.console.settings import ConsoleSettings
        from odradek.services.running import run_service, wait_for_brokers

        async def main() -> None:
            properties = {
                "bootstrap.servers": self._bootstrap,
                "listeners": self._url("console"),
                "odradek.cluster.name": "local",
                "schema.registry.url": self._url("schema registry"),
                "connect.url": self._url("Connect worker"),
                "sql.url": self._url("SQL server"),
            }
            if self._secured is not None:
                await self._secured.wait()
                properties |= self._secured.console_settings()
            settings = ConsoleSettings.from_file(properties)
            await wait_for_brokers(self._bootstrap)
            await run_service(ConsoleService(settings), on_ready)

        _run(main)

    def _url(self, service: str) -> str:
        return f"{self._scheme}://{_LOOPBACK}:{self._ports[service]}"

    # What others see

    def _remember(self, services: list[Child]) -> None:
        if self._data:
            shown = [
                RunningService(
                    service.name, service.ready or "", service.pid, service.output_path or ""
                )._asdict()
                for service in services
            ]
            OsDisk().replace(f"{self._data}/{FILE}", json.dumps(shown).encode())

    def _forget(self) -> None:
        if self._data:
            with suppress(OSError):
                OsDisk().remove(f"{self._data}/{FILE}")


def secured_services(data: str, bootstrap: str, *, is_asked: bool) -> SecuredServices | None:
    """Returns the security of the services of a directory that is secured, or about to be."""
    secured = SecuredDirectory(OsDisk(), data) if data else None
    if secured is None or not (is_asked or secured.is_made):
        return None
    return SecuredServices(secured, bootstrap)


def _run(main: Callable[[], object]) -> None:
    from odradek.world.event_loop import fastest_loop

    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(main())  # type: ignore[arg-type]  # a coroutine


def _client_host(host: str) -> str:
    """Returns where brokers that listen at `host` are reached from this machine."""
    if host in {"0.0.0.0", "::", "[::]"}:  # noqa: S104 - compared, not bound
        return _LOOPBACK
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
