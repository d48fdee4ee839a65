"""One topic: partitions, settings, consumers, producers, and what can be done with it."""

import asyncio
import shlex
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.admin.topic_types import NewTopic
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.config.operation import ConfigOperation
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.pages.history import shown_hours
from odradek.console.prometheus import RANGES
from odradek.console.records.copying import copy_records
from odradek.console.records.reading import listed_offsets
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.wording import counted

_GROUPS_AT_ONCE: Final = 16
_MAX_GROUPS: Final = 500
_MAX_COPIED: Final = 100_000


@dataclass(frozen=True, slots=True)
class PartitionRow:
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first: int | None
    end: int | None
    log_bytes: int | None

    @property
    def state(self) -> str:
        if self.leader < 0:
            return "offline"
        return "in sync" if len(self.in_sync) >= len(self.replicas) else "under-replicated"


class TopicPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        topic = "/topics/{topic}"
        return [
            self.shows(topic, self._partitions, "The partitions of a topic."),
            self.shows(f"{topic}/settings", self._settings, "The settings of a topic."),
            self.changes(f"{topic}/settings", self._change_setting, "Changes a setting."),
            self.shows(f"{topic}/consumers", self._consumers, "Groups that read a topic."),
            self.shows(f"{topic}/producers", self._producers, "Producers and transactions."),
            self.shows(f"{topic}/manage", self._manage, "What can be done with a topic."),
            self.changes(f"{topic}/grow", self._grow, "Adds partitions."),
            self.changes(f"{topic}/purge", self._purge, "Deletes all records."),
            self.changes(f"{topic}/clone", self._clone, "Makes a topic like this one."),
            self.changes(f"{topic}/delete", self._delete, "Deletes a topic."),
        ]

    # Partitions

    async def _partitions(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        rows, problem = await _rows(asked, topic)
        return asked.page(
            "topic.html", "topics", topic=topic, tab="partitions", rows=rows, problem=problem,
            records=sum(row.end - row.first for row in rows if row.first is not None and row.end),
            log_bytes=sum(row.log_bytes or 0 for row in rows),
            ranges=RANGES, hours=shown_hours(asked) or next(iter(RANGES)),
        )  # fmt: skip

    # Settings

    async def _settings(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["topic"])
        topic = await asked.topic(name)
        entries = await setting_entries(asked, ConfigResource(ConfigType.TOPIC, name))
        text = asked.query.text("q")
        return asked.page(
            "topic.html", "topics", 400 if problem else 200, topic=topic, tab="settings",
            entries=matching(entries, text), text=text, problem=problem,
            action=asked.url("topics", name, "settings"),
        )  # fmt: skip

    async def _change_setting(self, asked: PageRequest) -> Response:
        name = str(asked.path["topic"])
        resource = ConfigResource(ConfigType.TOPIC, name)
        try:
            words = await change_setting(asked, resource)
        except BadForm as error:
            return await self._settings(asked, str(error))
        return asked.go(asked.url("topics", name, "settings"), "good", words)

    # Consumers

    async def _consumers(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        partitions = [TopicPartition(topic.name, index) for index in topic.partitions]
        listings = await asked.admin.list_groups()
        names = sorted({listing.group_id for listing in listings if listing.is_of_consumers})
        gate = asyncio.Semaphore(_GROUPS_AT_ONCE)

        async def ask(group: str) -> dict[int, int]:
            async with gate:
                try:
                    offsets = await asked.admin.list_group_offsets(group, partitions)
                except (KafkaError, ClientError):
                    return {}  # A group that the user may not see.
            return {
                partition.partition: answer.offset
                for partition, answer in offsets.items()
                if not isinstance(answer, KafkaError)
            }

        answers = await asyncio.gather(*(ask(name) for name in names[:_MAX_GROUPS]))
        led = [
            partition
            for partition in partitions
            if topic.partitions[partition.partition].leader >= 0
        ]
        ends = await listed_offsets(asked.admin, led, LATEST) if led else {}
        states = {listing.group_id: listing.state for listing in listings}
        rows = [
            {
                "group": name,
                "state": states.get(name, ""),
                "partitions": len(offsets),
                "lag": sum(
                    max(0, ends[one] - offsets[one.partition])
                    for one in led
                    if one.partition in offsets and one in ends
                ),
            }
            for name, offsets in zip(names, answers, strict=False)
            if offsets
        ]
        rows.sort(key=lambda row: -int(str(row["lag"])))
        return asked.page(
            "topic.html", "topics", topic=topic, tab="consumers", rows=rows,
            cut=len(names) > _MAX_GROUPS, max_groups=_MAX_GROUPS,
            odradek=_odradek(asked.cluster.servers, topic.name),
            kcat=_kcat(asked.cluster.servers, topic.name),
        )  # fmt: skip

    # Producers

    async def _producers(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        partitions = [
            TopicPartition(topic.name, index)
            for index, partition in topic.partitions.items()
            if partition.leader >= 0
        ]
        rows, notes = [], []
        answers = await asked.admin.describe_producers(partitions) if partitions else {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                notes.append(f"Partition {partition.partition}: {answer.message}")
                continue
            rows += [(partition.partition, producer) for producer in answer]
        transactions: list[Any] = []
        try:
            listed = await asked.admin.list_transactions(states=["Ongoing"])
            described = await asked.admin.describe_transactions(
                [one.transactional_id for one in listed]
            )
            transactions = [
                one
                for one in described.values()
                if not isinstance(one, KafkaError)
                and any(partition.topic == topic.name for partition in one.partitions)
            ]
        except (KafkaError, ClientError) as error:
            notes.append(f"Transactions: {error}")
        rows.sort(key=lambda row: -row[1].last_timestamp_ms)
        return asked.page(
            "topic.html", "topics", topic=topic, tab="producers", rows=rows[:500], notes=notes,
            transactions=transactions,
        )  # fmt: skip

    # Changes

    async def _manage(self, asked: PageRequest, problem: str = "") -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        return asked.page(
            "topic.html", "topics", 400 if problem else 200, topic=topic, tab="manage",
            problem=problem, fields=dict(asked.form.fields), max_copied=_MAX_COPIED,
        )  # fmt: skip

    async def _grow(self, asked: PageRequest) -> Response:
        name = str(asked.path["topic"])
        try:
            total = asked.form.number("total", "Partitions", at_least=1, at_most=100_000)
            if total is None:
                raise BadForm("Partitions: say how many there should be")
        except BadForm as error:
            return await self._manage(asked, str(error))
        refusal = (await asked.admin.create_partitions({name: total}))[name]
        if refusal is not None:
            return await self._manage(asked, refusal.message)
        asked.changed()
        return asked.go(
            asked.url("topics", name),
            "good",
            f"Topic {name} has {counted(total, 'partition')} now.",
        )

    async def _purge(self, asked: PageRequest) -> Response:
        name = str(asked.path["topic"])
        topic = await asked.topic(name)
        if problem := _not_confirmed(asked, name):
            return await self._manage(asked, problem)
        answers = await asked.admin.delete_records(
            {TopicPartition(name, index): -1 for index in topic.partitions}
        )
        errors = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if errors:
            return await self._manage(asked, errors[0].message)
        asked.changed()
        return asked.go(asked.url("topics", name), "good", f"All records of {name} were deleted.")

    async def _delete(self, asked: PageRequest) -> Response:
        name = str(asked.path["topic"])
        if problem := _not_confirmed(asked, name):
            return await self._manage(asked, problem)
        await asked.admin.delete_topic(name)
        asked.changed()
        return asked.go(asked.url("topics"), "good", f"Topic {name} was deleted.")

    async def _clone(self, asked: PageRequest) -> Response:
        source = await asked.topic(str(asked.path["topic"]))
        try:
            target = asked.form.needed("target", "The name of the new topic")
        except BadForm as error:
            return await self._manage(asked, str(error))
        resource = ConfigResource(ConfigType.TOPIC, source.name)
        own = {
            entry.name: entry.value
            for entry in await setting_entries(asked, resource)
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        with_records = asked.form.has("records")
        rows, _ = await _rows(asked, source)
        count = sum(
            row.end - row.first for row in rows if row.end is not None and row.first is not None
        )
        if with_records and count > _MAX_COPIED:
            return await self._manage(
                asked,
                f"{source.name} has {count:,} records, and the console copies at most"
                f" {_MAX_COPIED:,}; clone it without its records",
            )
        masks = asked.cluster.masks
        if with_records and not masks(target).cover(masks(source.name)):
            return await self._manage(
                asked,
                f"Fields of {source.name} are masked, and in {target} they would be shown: clone it"
                " without its records, or add rules for both to odradek.masks",
            )
        factor = max(
            (len(partition.replicas) for partition in source.partitions.values()), default=1
        )
        new = NewTopic(target, len(source.partitions), factor, configs=own)
        created = (await asked.admin.create_topics([new]))[target]
        if isinstance(created, KafkaError):
            return await self._manage(asked, created.message)
        asked.changed()
        copied = 0
        if with_records:
            try:
                copied = await copy_records(asked.clients, source.name, target, source.partitions)
            except (KafkaError, ClientError) as error:
                return await self._manage(
                    asked,
                    f"Topic {target} was made, but not all records were copied: {error}. Delete it"
                    " before you clone again",
                )
        words = f" with {counted(copied, 'record', spec=',')}" if with_records else ""
        return asked.go(
            asked.url("topics", target), "good", f"Topic {target} is like {source.name}{words}."
        )


async def _rows(asked: PageRequest, topic: Topic) -> tuple[list[PartitionRow], str]:
    """Returns the partitions with offsets and sizes, and why these are missing if they are."""
    led = [
        TopicPartition(topic.name, index)
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    ]
    problem = ""
    firsts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    try:
        if led:
            firsts, ends = await asyncio.gather(
                listed_offsets(asked.admin, led, EARLIEST),
                listed_offsets(asked.admin, led, LATEST),
            )
    except (KafkaError, ClientError) as error:
        problem = f"The offsets cannot be read: {error}"
    sizes: dict[int, int] = {}
    figures = asked.watcher.figures
    if figures is not None:
        sizes = {
            one.partition: int(one.log_bytes)
            for one in figures.partitions
            if one.topic == topic.name and one.log_bytes is not None
        }
    rows = []
    for index, partition in topic.partitions.items():
        key = TopicPartition(topic.name, index)
        rows.append(
            PartitionRow(
                index,
                int(partition.leader),
                tuple(map(int, partition.replicas)),
                tuple(map(int, partition.in_sync)),
                firsts.get(key),
                ends.get(key),
                sizes.get(index),
            )
        )
    return rows, problem


async def setting_entries(asked: PageRequest, resource: ConfigResource) -> list[ConfigEntry]:
    """Returns the settings of a resource, those that differ from the default first."""
    answers = await asked.admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )
    entries = answers[resource]
    if isinstance(entries, KafkaError):
        raise entries
    return sorted(entries.values(), key=lambda entry: (entry.is_default, entry.name))


def matching(entries: list[ConfigEntry], text: str) -> list[ConfigEntry]:
    """Returns the settings that have the text in their name or value."""
    wanted = text.lower()
    return [
        entry
        for entry in entries
        if wanted in entry.name
        or (not entry.is_sensitive and wanted in (entry.value or "").lower())
    ]


async def change_setting(asked: PageRequest, resource: ConfigResource) -> str:
    """Does what the form of a setting asks for, and returns what was done. Raises `BadForm`."""
    setting = asked.form.needed("setting", "The setting")
    if asked.form.text("action") == "reset":
        change = ConfigChange(setting, None, ConfigOperation.DELETE)
        words = f"{setting} has its default again."
    else:
        value = asked.form.text("value")
        change = ConfigChange(setting, value)
        words = f"{setting} is {value} now."
    answer = (await asked.admin.incremental_alter_configs({resource: [change]}))[resource]
    if answer is not None:
        raise BadForm(answer.message)
    return words


def _odradek(servers: str, topic: str) -> str:
    """Returns a command that reads a topic as a group, from the beginning."""
    return (
        f"odradek console-consumer --bootstrap-server {shlex.quote(servers)}"
        f" --topic {shlex.quote(topic)} --group my-group --from-beginning"
    )


def _kcat(servers: str, topic: str) -> str:
    return (
        f"kcat -b {shlex.quote(servers)} -G my-group -X auto.offset.reset=earliest"
        f" {shlex.quote(topic)}"
    )


def _not_confirmed(asked: PageRequest, name: str) -> str:
    if asked.form.text("confirm") == name:
        return ""
    return f"Nothing was done: type {name} into the field to confirm it"
