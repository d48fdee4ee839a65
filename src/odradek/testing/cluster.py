"""One or several brokers in separate processes, for as long as a test needs them.

They are processes, because a broker in a thread would share the interpreter lock and the warning
filters with the tests. Each holds the read end of a pipe whose write end is in the test's process,
so it ends when that process ends, however that happens.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import IO, Self

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 20.0


class ClusterFailed(RuntimeError):
    """The broker did not start; the message is what it printed."""


# `broker 2 is ready at 127.0.0.1:9093 (process 4711, data in /some/where/broker-2)`
_BROKER = re.compile(r"broker (\d+) is ready at \S+ \(process (\d+), data in (.*)\)")
_READY = "odradek is ready at "


class Cluster:
    """Real brokers on free ports of 127.0.0.1, in memory unless `data` names a directory.

    `secure` starts it as `odradek up --secure` does: clients need `client_properties`.
    `settings` are broker settings by Kafka's names. Works in `with` and in `async with`. With
    several brokers, `kill` and `restart` test what your program does when a broker fails.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        data: str | None = None,
        secure: bool = False,
        host: str = "127.0.0.1",
        zookeeper: str | None = None,
    ) -> None:
        """`host` is the address to listen on, and to tell clients: `localhost` if certificates or
        Kerberos principals have that name. `zookeeper` is the address of an ensemble that has the
        metadata, for several brokers."""
        self._zookeeper = zookeeper
        self._secure = secure
        self._brokers = brokers
        self._host = host
        self._settings = dict(settings or {})
        self._data = data
        self._process: subprocess.Popen[str] | None = None
        self._pids: dict[int, int] = {}
        self._directories: dict[int, str] = {}
        self._restarted: list[subprocess.Popen[str]] = []
        self._said: IO[str]
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """`host:port`, with commas between several, for any Kafka client."""
        if not self._bootstrap:
            raise ClusterFailed("the cluster is not running; use `with Cluster() as cluster:`")
        return self._bootstrap

    @property
    def client_path(self) -> str:
        """The properties file with which `admin` logs in to a cluster that is `secure`."""
        if not self._secure:
            raise ClusterFailed("this cluster has no log-in; use Cluster(secure=True)")
        if self._data is not None:
            return f"{self._data}/client.properties"
        if not self._directories:
            raise ClusterFailed("the cluster is not running; use `with Cluster() as cluster:`")
        return f"{os.path.dirname(self._directories[1])}/client.properties"

    @property
    def client_properties(self) -> dict[str, str]:
        """Properties for clients by Kafka's names: the addresses and, with `secure`, the log-in."""
        if not self._secure:
            return {"bootstrap.servers": self.bootstrap}
        from odradek.config.properties import parse_properties  # noqa: PLC0415 - seldom used

        with open(self.client_path, encoding="utf-8") as file:
            return parse_properties(file.read())

    def start(self) -> Self:
        """Returns when every broker is ready; `with` calls it."""
        if self._process is not None:
            raise ClusterFailed("this cluster is already running")
        # A file and not a pipe: it is not read while the broker runs, and a pipe would fill up.
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `stop` closes it
        self._process = self._run(self._command())
        for line in _lines_until(_READY, self._process):
            found = _BROKER.match(line)
            if found:
                self._pids[int(found[1])] = int(found[2])
                self._directories[int(found[1])] = found[3]
            elif line.startswith(_READY):
                self._bootstrap = line.removeprefix(_READY).split(" ", 1)[0]
                return self
        self._process.communicate()
        self._process = None
        with self._said as file:
            file.seek(0)
            said = file.read().strip()
        raise ClusterFailed(f"the broker did not start: {said or 'it said nothing'}")

    def _run(self, command: list[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            # Ctrl-C is for the program. Without its brokers a consumer would wait for half a minute
            # to commit when it is closed.
            process_group=0,
        )

    def kill(self, broker_id: int) -> None:
        """Ends one broker at once, as a crash does (kill -9); the others go on."""
        os.kill(self._pid(broker_id), signal.SIGKILL)
        for process in self._restarted:
            if process.pid == self._pids[broker_id]:
                process.wait()
        del self._pids[broker_id]

    def _pid(self, broker_id: int) -> int:
        pid = self._pids.get(broker_id)
        if pid is None:
            if self._brokers == 1:
                raise ClusterFailed("a single broker is not killed: use Cluster(brokers=3)")
            running = ", ".join(map(str, sorted(self._pids))) or "none"
            raise ClusterFailed(f"no broker {broker_id} to kill; running are {running}")
        return pid

    def restart(self, broker_id: int) -> None:
        """Brings back a broker that was killed, with its data; returns when it is ready."""
        if broker_id in self._pids or broker_id not in self._directories:
            raise ClusterFailed(f"broker {broker_id} cannot be restarted: it was not killed")
        settings = f"{self._directories[broker_id]}/server.properties"
        command = [sys.executable, "-m", "odradek.cli", "broker", settings]
        process = self._run([*command, "--until-input-closes"])
        self._restarted.append(process)
        if not any(line.startswith(_READY) for line in _lines_until(_READY, process)):
            raise ClusterFailed(f"broker {broker_id} did not start again")
        self._pids[broker_id] = process.pid

    def stop(self) -> None:
        """Returns when the broker has ended; `with` calls it."""
        process, self._process, self._bootstrap = self._process, None, ""
        restarted, self._restarted = self._restarted, []
        self._pids.clear()
        self._directories.clear()
        if process is None:
            return
        try:
            # Restarted brokers stop first: they need the cluster's metadata store for a clean stop.
            for broker in [*restarted, process]:
                _end(broker)
        finally:
            self._said.close()

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        prefix: str = "topic",
    ) -> str:
        """Creates a topic, by default with an unused name, and returns its name.

        It may be called while an event loop is running: it uses its own loop in a thread.
        """
        result: list[str | BaseException] = []

        def create() -> None:
            try:
                result.append(
                    asyncio.run(
                        self.create_topic_async(
                            name, partitions, config, prefix, replication_factor
                        )
                    )
                )
            except BaseException as failure:  # noqa: BLE001 - raised again by the caller
                result.append(failure)

        thread = threading.Thread(target=create, name="odradek-create-topic")
        thread.start()
        thread.join()
        outcome = result[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def create_topic_async(
        self,
        name: str | None = None,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        prefix: str = "topic",
        replication_factor: int = -1,
    ) -> str:
        from odradek.client.admin.admin import Admin  # noqa: PLC0415 - only if it is used

        name = name or f"{prefix}-{uuid.uuid4().hex[:12]}"
        async with Admin(self.client_properties) as admin:
            await admin.create_topic(
                name, partitions, replication_factor, configs=dict(config or {})
            )
        return name

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "odradek.cli", "up", "--host", self._host, "--port", "0"]
        command += ["--until-input-closes", "--brokers", str(self._brokers)]
        command += ["--memory"] if self._data is None else ["--data", self._data]
        command += ["--secure"] if self._secure else []
        command += ["--zookeeper", self._zookeeper] if self._zookeeper else []
        # Nobody asks for metrics unless the settings say where: a test should start fast.
        for key, value in {"management.listener": "", **self._settings}.items():
            command += ["--override", f"{key}={value}"]
        return command

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)


def _lines_until(last: str, process: "subprocess.Popen[str]") -> Iterator[str]:
    """Returns the output of a process up to the line that begins with `last`, or all of it."""
    late = threading.Timer(_START_TIMEOUT_S, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            yield line
            if line.startswith(last):
                return
    finally:
        late.cancel()


def _end(process: "subprocess.Popen[str]") -> None:
    """Stops a process by closing its standard input."""
    try:
        process.communicate(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
