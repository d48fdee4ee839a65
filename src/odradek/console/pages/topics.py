"""The list of topics, and making a new one."""

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import Response

from odradek.client.admin.topic_types import NewTopic
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.cluster.placement import NotEnoughBrokers, place
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.ops.top.figures import TopicFigures
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId
from odradek.web.endpoints import Endpoint
from odradek.world.randomness import Randomness

PER_PAGE: Final = 50
_COOKIE_CHARACTERS: Final = 3500
_COOKIE_AGE_S: Final = 31_536_000
_MAX_PARTITIONS: Final = 10_000
_SHOWN_PARTITIONS: Final = 24
_SORTS: Final = ("name", "partitions", "records", "size", "rate")
_COMMON: Final = (
    ("cleanup.policy", "Cleanup policy", "delete, compact, or both with a comma"),
    ("retention.ms", "Retention in ms", "-1 keeps records for ever; 604800000 is a week"),
    ("retention.bytes", "Retention in bytes", "for each partition; -1 means no limit"),
    ("min.insync.replicas", "In-sync replicas for acks=all", "2 is usual with 3 replicas"),
    ("max.message.bytes", "Largest batch in bytes", ""),
    ("compression.type", "Compression", "producer keeps what producers chose"),
)


class TopicListPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/topics", self._list, "All topics."),
            self.shows("/new-topic", self._new, "The form for a new topic."),
            self.changes("/new-topic", self._create, "Previews or makes a topic."),
            self.changes("/topics/{topic}/mark", self._mark, "Pins or hides a topic."),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        rows = await topic_rows(asked)
        marks = Marks.of(asked)
        text, sort = asked.query.text("q").lower(), asked.query.text("sort", "name")
        is_down = asked.query.text("dir") == "down"
        with_internal = asked.query.has("internal")
        with_hidden = asked.query.has("hidden")
        shown = [
            row
            for row in rows
            if text in row.name.lower()
            and (with_internal or not is_internal(row.name))
            and (with_hidden or row.name not in marks.hidden)
        ]
        shown.sort(key=_sort_key(sort), reverse=is_down)
        shown.sort(key=lambda row: row.name not in marks.pinned)
        count = len(shown)
        last = max(1, -(-count // PER_PAGE))
        page = min(last, max(1, asked.query.number("page", "Page", at_most=10**6) or 1))
        return asked.page(
            "topics.html", "topics", rows=shown[(page - 1) * PER_PAGE : page * PER_PAGE],
            count=count, all=len(rows), page=page, last=last, sort=sort, is_down=is_down,
            text=asked.query.text("q"), marks=marks, with_internal=with_internal,
            with_hidden=with_hidden, internal=sum(is_internal(row.name) for row in rows),
            problem=asked.watcher.problem,
        )  # fmt: skip

    async def _mark(self, asked: PageRequest) -> Response:
        topic = str(asked.path["topic"])
        marks = Marks.of(asked)
        marks.change(topic, asked.form.text("mark"))
        response = asked.go(asked.form.text("back") or asked.url("topics"))
        if not response.headers["location"].startswith(asked.url("topics")):
            response.headers["location"] = asked.url("topics")
        response.set_cookie(
            marks.cookie, marks.text(), max_age=_COOKIE_AGE_S, path=asked.url(), samesite="lax",
            httponly=True, secure=asked.request.url.scheme == "https",
        )  # fmt: skip
        return response

    # New topics

    async def _new(self, asked: PageRequest) -> Response:
        return await self._form(asked, asked.query.fields)

    async def _create(self, asked: PageRequest) -> Response:
        fields = asked.form.fields
        try:
            wanted = _wanted(asked)
        except BadForm as error:
            return await self._form(asked, fields, problem=str(error))
        if asked.form.text("action") == "preview":
            return await self._preview(asked, wanted)
        try:
            created = (await asked.admin.create_topics([wanted]))[wanted.name]
        except (ClientError, ValueError) as error:
            return await self._form(asked, fields, problem=str(error))
        if isinstance(created, KafkaError):
            return await self._form(asked, fields, problem=created.message)
        asked.changed()
        return asked.go(asked.url("topics", wanted.name), "good", f"Topic {wanted.name} was made.")

    async def _preview(self, asked: PageRequest, wanted: NewTopic) -> Response:
        """Asks the brokers whether they would make the topic, and shows where its replicas go."""
        try:
            answer = (await asked.admin.create_topics([wanted], validate_only=True))[wanted.name]
            if isinstance(answer, KafkaError):
                return await self._form(asked, asked.form.fields, problem=answer.message)
            count = wanted.partitions if wanted.partitions > 0 else answer.num_partitions
            factor = answer.replication_factor
            if wanted.replication_factor > 0:
                factor = wanted.replication_factor
            cluster = await asked.admin.describe_cluster()
            racks: dict[BrokerId, str | None] = {
                broker.id: broker.rack for broker in cluster.brokers
            }
            placed = place(racks, max(1, count), max(1, factor), Randomness())
        except (ClientError, NotEnoughBrokers, ValueError) as error:
            return await self._form(asked, asked.form.fields, problem=str(error))
        return await self._form(asked, asked.form.fields, placed=placed, racks=racks)

    async def _form(
        self,
        asked: PageRequest,
        fields: list[tuple[str, str]],
        *,
        problem: str = "",
        placed: list[list[BrokerId]] | None = None,
        racks: dict[BrokerId, str | None] | None = None,
    ) -> Response:
        status = 400 if problem else 200
        totals = {
            broker: (
                sum(replicas[0] == broker for replicas in placed),
                sum(broker in replicas for replicas in placed),
            )
            for broker in racks or {}
            if placed is not None
        }
        return asked.page(
            "topic_new.html", "topics", status, fields=dict(fields), problem=problem,
            common=_COMMON, placed=placed, racks=racks or {}, totals=totals,
            shown_partitions=_SHOWN_PARTITIONS,
            assignment="" if placed is None else json.dumps(placed),
        )  # fmt: skip


def _wanted(asked: PageRequest) -> NewTopic:
    """Returns the topic that the form describes."""
    form = asked.form
    name = form.needed("name", "The name")
    partitions = form.number("partitions", "Partitions", at_least=1, at_most=_MAX_PARTITIONS)
    factor = form.number("factor", "Replicas", at_least=1, at_most=32767)
    configs = {name: form.text(name) for name, _, _ in _COMMON if form.text(name)}
    configs |= settings_of(form.raw("settings"))
    assignments: dict[int, list[int]] = {}
    if form.text("action") == "create" and form.text("assignment"):
        assignments = _assignments(form.text("assignment"))
        fits = partitions in (None, len(assignments)) and all(
            factor in (None, len(replicas)) for replicas in assignments.values()
        )
        if not fits:
            assignments = {}  # The form was changed after the preview.
    try:
        return NewTopic(name, partitions or -1, factor or -1, assignments, configs)
    except (TypeError, ValueError) as error:
        raise BadForm(str(error)) from None


def _assignments(text: str) -> dict[int, list[int]]:
    try:
        found = json.loads(text)
        return {index: [int(broker) for broker in replicas] for index, replicas in enumerate(found)}
    except (ValueError, TypeError, RecursionError):
        raise BadForm("the placement cannot be read; preview it again") from None


def settings_of(text: str) -> dict[str, str]:
    """Returns the settings that lines `name=value` give."""
    settings = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadForm(f"Further settings: {line.strip()[:60]!r} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


@dataclass(slots=True)
class Marks:
    """The topics that a user pinned or hid, in a cookie of the browser: no secret, and it outlives
    sessions."""

    cookie: str
    pinned: list[str]
    hidden: list[str]

    @classmethod
    def of(cls, asked: PageRequest) -> "Marks":
        cookie = f"odradek-topics-{asked.cluster.name}"
        marks = cls(cookie, [], [])
        try:
            given = json.loads(bytes.fromhex(asked.request.cookies.get(cookie, "")))
            marks.pinned = [str(name) for name in given["pinned"]]
            marks.hidden = [str(name) for name in given["hidden"]]
        except (ValueError, LookupError, TypeError):
            pass  # No cookie, or one that is not ours.
        return marks

    def change(self, topic: str, mark: str) -> None:
        self.pinned = [name for name in self.pinned if name != topic]
        self.hidden = [name for name in self.hidden if name != topic]
        if mark == "pin":
            self.pinned.append(topic)
        elif mark == "hide":
            self.hidden.append(topic)
        elif mark != "none":
            raise BadForm("a topic is pinned, hidden or neither")
        if len(self.text()) > _COOKIE_CHARACTERS:
            raise BadForm("so many topics cannot be remembered; unpin or show some")

    def text(self) -> str:
        return json.dumps({"pinned": self.pinned, "hidden": self.hidden}).encode().hex()


async def topic_rows(asked: PageRequest) -> list[TopicFigures]:
    """Returns all topics that the user may see, with figures if there are any. After a change by
    the console, and before the first sample, the brokers are asked."""
    watcher = asked.watcher
    figures = watcher.figures
    if figures is not None and not watcher.is_stale and not watcher.problem:
        return list(figures.topics)
    known = {topic.name: topic for topic in figures.topics} if figures is not None else {}
    topics = await asked.admin.list_topics(include_internal=True)
    return [_row(topic, known.get(topic.name)) for topic in topics.values()]


def _row(topic: Topic, before: TopicFigures | None) -> TopicFigures:
    """Returns a topic as the brokers describe it now, with the figures of the last sample."""
    partitions = topic.partitions.values()
    now = TopicFigures(
        topic.name,
        len(partitions),
        max((len(partition.replicas) for partition in partitions), default=0),
        sum(len(partition.in_sync) < len(partition.replicas) for partition in partitions),
        sum(partition.leader < 0 for partition in partitions),
    )
    if before is None:
        return now
    return replace(
        now, bytes_in=before.bytes_in, bytes_out=before.bytes_out, records=before.records,
        messages_in=before.messages_in, log_bytes=before.log_bytes,
    )  # fmt: skip


def is_internal(name: str) -> bool:
    return name.startswith("_")


def _sort_key(sort: str) -> Any:
    if sort not in _SORTS or sort == "name":
        return lambda row: row.name
    attribute = {"size": "log_bytes", "rate": "messages_in"}.get(sort, sort)
    return lambda row: (getattr(row, attribute) or 0, row.name)
