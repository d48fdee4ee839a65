"""Checks the configuration of a connector, with everything that only a worker can say.

Beside what `connect.validation` says: secrets that it refers to, what it may override of its Kafka
clients, its rules for topics, and what the other side says (`Connector.wrong_outside`). Code of the
connector runs in a thread, within a limit.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from odradek.config.kinds import string
from odradek.config.redaction import redact
from odradek.config.spelling import did_you_mean
from odradek.connect import plugins
from odradek.connect.connector_settings import COMMON
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.context import connector_of
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.engine.topics import wrong_rules
from odradek.connect.errors import ConnectError, InvalidConfig
from odradek.connect.setting_looks import Look
from odradek.connect.settings import Problems, invalid
from odradek.connect.validation import Described, Properties, Report, connector_class, validate
from odradek.connect.worker.secrets import Secrets

_OUTSIDE_S: Final = 20.0
_OFFSETS_TOPIC: Final = "offsets.storage.topic"
_VERSION: Final = ".plugin.version"
# Names that no class declares one by one.
_PREFIXES: Final = (
    "key.converter.", "value.converter.", "header.converter.", "transforms.", "predicates.",
    "topic.creation.", "producer.override.", "consumer.override.", "admin.override.", "odradek.",
)  # fmt: skip


class Checker:
    def __init__(
        self,
        secrets: Secrets,
        clients: ConnectorClients,
        offsets_topic: str,
        converters: Mapping[str, str],
    ) -> None:
        """`converters` are the properties of the worker's converters."""
        self._secrets = secrets
        self.converters = converters
        self._clients = clients
        self._offsets_topic = offsets_topic

    async def report(self, properties: Properties) -> Report:
        """Raises `InvalidConfig` if the class is missing or not known."""
        given = {name: text for name, text in properties.items() if text is not None}
        connector_class(self._secrets.shown(given))  # Its message shows the properties.
        unresolved = self._unresolved(given)
        if unresolved:
            return self._with_problems(validate(given, self.converters), given, unresolved)
        resolved = self._secrets.resolved(given)
        found = await asyncio.to_thread(validate, {**properties, **resolved}, self.converters)
        report = self._with_problems(found, given, self._problems(resolved, found))
        if not report.errors:
            outside = await _outside(resolved)
            report = self._with_problems(report, given, outside)
        return report

    def _unresolved(self, properties: Mapping[str, str]) -> Problems:
        """Returns what is wrong with the references to secrets."""
        problems: Problems = {}
        for name, text in properties.items():
            try:
                self._secrets.resolved({name: text})
            except InvalidConfig as error:
                problems[name] = [str(error)]
        return problems

    def _problems(self, properties: Mapping[str, str], report: Report) -> Problems:
        problems = self._clients.wrong_overrides(properties)
        if report.plugin.name in plugins.SOURCES:
            problems.update(wrong_rules(properties))
            topic = properties.get(_OFFSETS_TOPIC)
            if topic and topic != self._offsets_topic:
                reason = (
                    f"all sources of a worker keep their offsets in its topic {self._offsets_topic}"
                )
                problems[_OFFSETS_TOPIC] = [invalid(_OFFSETS_TOPIC, topic, reason)]
        for name, version in properties.items():
            if name.endswith(_VERSION) and version.strip("[]") != report.plugin.version:
                reason = f"version {report.plugin.version} is installed"
                problems[name] = [invalid(name, version, reason)]
        return problems

    @staticmethod
    def announcements(properties: Mapping[str, str], report: Report) -> list[str]:
        """Returns lines about properties that change nothing. Kafka Connect skips names that
        it does not know, so they are no error; but they should not pass unnoticed."""
        known = {found.name for found in report.settings}
        unknown = [
            name
            for name in properties
            if name not in known
            and not name.startswith(_PREFIXES)
            and not report.plugin.settings_class.takes(name)
        ]
        for_spark = [name for name in unknown if name.startswith("spark.")]
        lines = [
            f"{name} changes nothing: {report.plugin.name} has no such setting"
            f"{did_you_mean(name, known)}"
            for name in unknown
            if name not in for_spark
        ]
        if properties.get("odradek.lane") != "own":
            lines += [f"{name} changes nothing without odradek.lane=own" for name in for_spark]
        if properties.get("transaction.boundary", "poll").lower() != "poll":
            lines.append("transaction.boundary changes nothing: each batch is a transaction")
        return lines

    def _with_problems(
        self, report: Report, given: Mapping[str, str], problems: Problems
    ) -> Report:
        """Returns the report with more problems, and without anything that is secret."""
        known = {found.name for found in report.settings}
        settings = [
            replace(
                found,
                value=self._shown(found, given),
                errors=tuple(
                    redact(line) for line in (*found.errors, *problems.get(found.name, ()))
                ),
            )
            for found in report.settings
        ]
        settings += [
            Described(
                name, string(name, None, "A property of this name."), COMMON, Look(name, 0),
                self._secrets.shown(given).get(name), tuple(map(redact, lines)),
            )
            for name, lines in problems.items()
            if name not in known
        ]  # fmt: skip
        return Report(report.plugin, tuple(settings))

    def _shown(self, found: Described, given: Mapping[str, str]) -> str | None:
        raw = given.get(found.name)
        if raw is not None and self._secrets.has_reference(raw):
            return raw
        return found.value


async def _outside(properties: Mapping[str, str]) -> Problems:
    thread = TaskThread("validate")
    try:
        async with asyncio.timeout(_OUTSIDE_S):
            found: Problems = await thread.call(lambda: connector_of(properties).wrong_outside())
            return found
    except TimeoutError:
        return {}  # It does not answer now; the task's status will say so.
    except ConnectError as error:
        return {"connector.class": [str(error)]}
    finally:
        thread.close()
