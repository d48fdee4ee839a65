"""A broker in a process of its own, for as long as a test needs it.

A process, because a broker in a thread would share the interpreter lock and the warnings
filters of the tests it serves. It holds the reading end of a pipe that only we write to, so it
ends when we end, however that happens.
"""

import asyncio
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0


class ClusterFailed(RuntimeError):
    """The broker did not start; the message is what it said."""


class Cluster:
    """A real broker on a free port of 127.0.0.1, in memory unless `data` names a directory.

    `settings` are broker settings by Kafka's names. Works in `with` and in `async with`.
    """

    def __init__(
        self, *, settings: Mapping[str, str] | None = None, data: str | None = None
    ) -> None:
        self._settings = dict(settings or {})
        self._data = data
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[str]
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """`host:port`, for any Kafka client."""
        if not self._bootstrap:
            raise ClusterFailed("the cluster is not running; use `with Cluster() as cluster:`")
        return self._bootstrap

    def start(self) -> Self:
        """Returns when the broker is ready; `with` calls it."""
        if self._process is not None:
            raise ClusterFailed("this cluster is already running")
        # A file and not a pipe: nobody reads it while the broker runs, and a pipe would fill.
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `stop` closes it
        self._process = process = subprocess.Popen(  # noqa: S603 - our own command
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        late = threading.Timer(_START_TIMEOUT_S, process.kill)
        late.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        late.cancel()
        if not line:
            process.communicate()
            self._process = None
            with self._said as file:
                file.seek(0)
                said = file.read().strip()
            raise ClusterFailed(f"the broker did not start: {said or 'it said nothing'}")
        self._bootstrap = line.split(" at ", 1)[1].split(" ", 1)[0]
        return self

    def stop(self) -> None:
        """Returns when the broker has ended; `with` calls it."""
        process, self._process, self._bootstrap = self._process, None, ""
        if process is None:
            return
        try:
            # Closing its standard input is how it is told.
            process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        finally:
            self._said.close()

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        prefix: str = "topic",
    ) -> str:
        """Creates a topic, by default with a name that nobody uses, and returns its name.

        Safe to call where a loop is running: it uses one of its own, in a thread.
        """
        result: list[str | BaseException] = []

        def create() -> None:
            try:
                result.append(
                    asyncio.run(self.create_topic_async(name, partitions, config, prefix))
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
    ) -> str:
        from odradek.client.admin import Admin  # noqa: PLC0415 - only if it is used

        name = name or f"{prefix}-{uuid.uuid4().hex[:12]}"
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            await admin.create_topic(name, partitions, configs=dict(config or {}))
        return name

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "odradek.cli", "up", "--port", "0"]
        command += ["--until-input-closes"]
        command += ["--memory"] if self._data is None else ["--data", self._data]
        for key, value in self._settings.items():
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
