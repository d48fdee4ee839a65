"""What users do with connectors: create, change, pause, restart, delete. The leader does it.

Each operation checks, writes to the config topic, and returns when this worker's state has it. All
changes are made one after the other, so that what was checked still holds when it is written.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.connect.engine.engine import TaskId
from odradek.connect.errors import ConnectError, InvalidConfig
from odradek.connect.settings import missing
from odradek.connect.validation import raise_for
from odradek.connect.worker.checking import Checker
from odradek.connect.worker.config_state import (
    ConfigRecord,
    RestartRequest,
    TargetState,
    connector_record,
    deletion,
    restart_record,
    target_record,
    task_records,
)
from odradek.connect.worker.offsets import Entry, GivenEntry, Offsets
from odradek.connect.worker.secrets import kept
from odradek.connect.worker.worker import Worker

Properties = Mapping[str, str]
UNKNOWN: Final = "Unknown connector: {}"
NO_STATUS: Final = "No status found for connector {}"


class NotFound(ConnectError):
    pass


class Conflict(ConnectError):
    """The connector exists, or is in a state in which this cannot be done."""


class WrongState(ConnectError):
    """The connector must be stopped first."""


class Operations:
    def __init__(self, worker: Worker, checker: Checker, offsets: Offsets) -> None:
        self.worker = worker
        self.checker = checker
        self.offsets = offsets
        self._changing = asyncio.Lock()

    def config(self, name: str, otherwise: str = "Connector {} not found") -> dict[str, str]:
        """Returns the properties of a connector as they are stored. Raises `NotFound` with the
        words of `otherwise`: Kafka Connect has other ones for each question."""
        found = self.worker.configs.connectors.get(name)
        if found is None:
            raise NotFound(otherwise.format(name))
        return found

    def task_configs(self, name: str) -> Sequence[Properties]:
        self.config(name)
        return self.worker.configs.tasks.get(name, [])

    def require_task(self, task: TaskId, otherwise: str) -> None:
        """Raises `NotFound` with the words of `otherwise` if there is no such task."""
        if task.number >= len(self.worker.configs.tasks.get(task.connector, ())):
            raise NotFound(otherwise.format(task))

    async def create(
        self, name: str, properties: Properties, target: TargetState | None
    ) -> dict[str, str]:
        """Makes a connector; returns its properties. Raises `InvalidConfig` or `Conflict`."""
        named = _named(name, properties)
        await self._check(named)
        async with self._changing:
            if name in self.worker.configs.connectors:
                raise Conflict(f"Connector {name} already exists")
            records = [connector_record(name, named)]
            if target is not None:
                # Before the configuration, so that nobody starts what should not run.
                records.insert(0, target_record(name, target))
            await self._write(records)
        return named

    async def put(self, name: str, properties: Properties) -> tuple[dict[str, str], bool]:
        """Makes or changes a connector; returns its properties, and whether it is new."""
        known = self.worker.configs.connectors.get(name, {})
        named = kept(_named(name, properties), known)
        await self._check(named)
        async with self._changing:
            is_new = name not in self.worker.configs.connectors
            await self._write([connector_record(name, named)])
        return named, is_new

    async def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Changes some properties; None removes one."""
        known = self.config(name)
        if changes.get("name", name) is None:
            raise InvalidConfig(missing("name"))
        merged = {**known, **{key: text for key, text in changes.items() if text is not None}}
        for key, text in changes.items():
            if text is None:
                merged.pop(key, None)
        return (await self.put(name, merged))[0]

    async def _check(self, properties: Properties) -> None:
        report = await self.checker.report(properties)
        raise_for(report)
        for line in self.checker.announcements(properties, report):
            self.worker.note_of(properties["name"], logging.WARNING, "%s", line)

    async def delete(self, name: str) -> None:
        async with self._changing:
            self.config(name)
            await self._write(deletion(name))
        self.worker.log.forget(name)

    async def set_target(self, name: str, target: TargetState) -> None:
        async with self._changing:
            self.config(name, "Unknown connector {}")
            records = [target_record(name, target)]
            if target is TargetState.STOPPED:
                records += task_records(name, [])
            await self._write(records)

    async def restart(self, request: RestartRequest) -> None:
        async with self._changing:
            self.config(request.connector, UNKNOWN)
            await self._write([restart_record(request)])

    async def _write(self, records: Sequence[ConfigRecord]) -> None:
        await self.worker.store.write(records)

    # Offsets

    async def change_offsets(self, name: str, given: Sequence[GivenEntry] | None) -> None:
        """Sets offsets, or removes all of them if `given` is None."""
        async with self._changing:
            raw = self.config(name)
            await self._require_stopped(name)
            properties = self.worker.secrets.resolved(raw)
            former = self.worker.configs.fenced_counts.get(name, 0)
            if given is None:
                await self.offsets.reset(name, properties, former)
            else:
                entries = [*map(_with_partition, given)]
                await self.offsets.change(name, properties, entries, former)

    async def _require_stopped(self, name: str) -> None:
        configs = self.worker.configs
        if configs.target(name) is not TargetState.STOPPED or configs.tasks.get(name):
            raise WrongState(
                "Connectors must be in the STOPPED state before their offsets can be modified."
                f" This can be done for the specified connector by issuing a 'PUT' request to the"
                f" '/connectors/{name}/stop' endpoint"
            )

    async def offsets_of(self, name: str) -> list[Entry]:
        return await self.offsets.of(name, self.worker.secrets.resolved(self.config(name)))


def _with_partition(given: GivenEntry) -> Entry:
    partition, offset = given
    if partition is None:
        raise InvalidConfig("The partition for a connector offset cannot be null or missing")
    return partition, offset


def _named(name: str, properties: Properties) -> dict[str, str]:
    """Returns the properties with the name of the connector, which they may have already."""
    given = properties.get("name", name)
    if given != name:
        raise InvalidConfig(
            f"Connector name configuration ({given}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return {**properties, "name": name}
