"""Settings of all brokers together, and the levels of a broker's loggers.

A setting of a broker comes from the first of: its own dynamic value, the one of all brokers, its
file, the default. The page of all brokers shows where they differ and changes the value of all.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.errors import ClientError
from odradek.config.operation import ConfigOperation
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.pages.topic import change_setting
from odradek.protocol.errors import KafkaError
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem

ALL_BROKERS: Final = ConfigResource(ConfigType.BROKER, "")
LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_WHICH: Final = {
    "": "all settings",
    "changed": "those without the default",
    "differs": "those that differ between brokers",
    "dynamic": "those that can be changed here",
}
# They differ by their nature: whose they are is in their value.
_OF_ONE: Final = frozenset(
    {
        "advertised.listeners", "broker.id", "broker.rack", "listeners", "log.dir", "log.dirs",
        "node.id", "odradek.management.listener",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting, with the entry of each broker that could be asked."""

    name: str
    entries: Mapping[int, ConfigEntry]

    @property
    def any(self) -> ConfigEntry:
        return next(iter(self.entries.values()))

    @property
    def differs(self) -> bool:
        return len({entry.value for entry in self.entries.values()}) > 1

    @property
    def differs_by_nature(self) -> bool:
        return self.name in _OF_ONE

    @property
    def is_default(self) -> bool:
        return all(entry.is_default for entry in self.entries.values())

    @property
    def default(self) -> str | None:
        return self._synonym(ConfigSource.DEFAULT_CONFIG)

    @property
    def of_all(self) -> str | None:
        """The value that was set for all brokers, if one was."""
        return self._synonym(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)

    @property
    def has_of_all(self) -> bool:
        return any(
            one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG for one in self.any.synonyms
        )

    @property
    def own(self) -> list[int]:
        """The brokers with a dynamic value of their own: it goes over that of all."""
        return [
            broker
            for broker, entry in self.entries.items()
            if entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG
        ]

    def _synonym(self, source: ConfigSource) -> str | None:
        return next((one.value for one in self.any.synonyms if one.source is source), None)


class BrokerSettingPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        loggers = "/brokers/{broker:int}/loggers"
        return [
            self.shows("/brokers/settings", self._settings, "Settings of all brokers."),
            self.changes("/brokers/settings", self._change, "Changes one for all brokers."),
            self.shows(loggers, self._loggers, "Levels of a broker's loggers."),
            self.changes(loggers, self._change_level, "Changes the level of a logger."),
        ]

    # Settings

    async def _settings(self, asked: PageRequest, problem: str = "") -> Response:
        rows, silent = await _rows(asked)
        text, which = asked.query.text("q").lower(), asked.query.text("which")
        shown = [row for row in rows if text in row.name and _is_of(row, which)]
        return asked.page(
            "broker_settings.html", "brokers", 400 if problem else 200, rows=shown, all=len(rows),
            silent=silent, problem=problem, text=asked.query.text("q"), which=which,
            choices=_WHICH, action=asked.url("brokers", "settings"),
        )  # fmt: skip

    async def _change(self, asked: PageRequest) -> Response:
        try:
            words = await change_setting(asked, ALL_BROKERS)
        except BadForm as error:
            return await self._settings(asked, str(error))
        name = asked.form.text("setting")
        return asked.go(asked.url("brokers", "settings", q=name), "good", f"All brokers: {words}")

    # Loggers

    async def _loggers(self, asked: PageRequest, problem: str = "") -> Response:
        broker = int(asked.path["broker"])
        await _require_broker(asked, broker)
        entries: list[ConfigEntry] = []
        resource = ConfigResource(ConfigType.BROKER_LOGGER, str(broker))
        try:
            answer = (await asked.admin.describe_configs([resource], include_documentation=True))[
                resource
            ]
            if isinstance(answer, KafkaError):
                raise answer
            entries = sorted(answer.values(), key=lambda entry: entry.name)
        except ClientError as error:
            problem = f"Broker {broker} does not tell its loggers: {error}"
        text = asked.query.text("q").lower()
        shown = [entry for entry in entries if text in entry.name.lower()]
        return asked.page(
            "broker_loggers.html", "brokers", 400 if problem else 200, broker=broker,
            tab="loggers", entries=shown, all=len(entries),
            text=asked.query.text("q"), levels=LEVELS, problem=problem,
            action=asked.url("brokers", broker, "loggers"),
        )  # fmt: skip

    async def _change_level(self, asked: PageRequest) -> Response:
        broker = int(asked.path["broker"])
        try:
            name, level = asked.form.needed("logger", "The logger"), asked.form.text("level")
            if asked.form.text("action") == "reset":
                change = ConfigChange(name, None, ConfigOperation.DELETE)
                words = f"{name} has the level of the start again."
            elif level not in LEVELS:
                raise BadForm("Level: choose one")
            else:
                change, words = ConfigChange(name, level), f"{name} writes from {level} on now."
            resource = ConfigResource(ConfigType.BROKER_LOGGER, str(broker))
            answer = (await asked.admin.incremental_alter_configs({resource: [change]}))[resource]
            if answer is not None:
                raise BadForm(answer.message)
        except BadForm as error:
            return await self._loggers(asked, str(error))
        url = asked.url("brokers", broker, "loggers", q=asked.form.text("q"))
        return asked.go(url, "good", words)


def _is_of(row: SettingRow, which: str) -> bool:
    if which == "changed":
        return not row.is_default
    if which == "differs":
        return row.differs and not row.differs_by_nature
    return which != "dynamic" or not row.any.is_read_only


async def _rows(asked: PageRequest) -> tuple[list[SettingRow], list[int]]:
    """Returns the settings that the brokers tell, and the brokers that told none. Raises what they
    answer if none tells any."""
    brokers = [int(one.id) for one in (await asked.admin.describe_cluster()).brokers]
    answers = await asyncio.gather(*(_entries(asked, one) for one in brokers))
    told: dict[str, dict[int, ConfigEntry]] = {}
    failure: Exception | None = None
    silent: list[int] = []
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, Exception):
            silent.append(broker)
            failure = answer
            continue
        for name, entry in answer.items():
            told.setdefault(name, {})[broker] = entry
    if failure is not None and not told:
        raise failure
    return [SettingRow(name, told[name]) for name in sorted(told)], silent


async def _entries(asked: PageRequest, broker: int) -> dict[str, ConfigEntry] | Exception:
    resource = ConfigResource(ConfigType.BROKER, str(broker))
    try:
        return (
            await asked.admin.describe_configs(
                [resource], include_synonyms=True, include_documentation=True
            )
        )[resource]
    except (KafkaError, ClientError) as error:
        return error


async def _require_broker(asked: PageRequest, broker: int) -> None:
    known = [int(one.id) for one in (await asked.admin.describe_cluster()).brokers]
    if broker not in known:
        raise Problem(404, f"there is no broker {broker} in this cluster that runs")
