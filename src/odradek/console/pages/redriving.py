"""Dead letters go back to the topics that they are from.

A preview reads as the page of messages does, so filters and searches see masked values. What goes
back are the bytes as they are, with the headers that the record had in its topic. A topic that is
masked less than the dead letters is refused as a target: who may not see a field must not be able
to copy it to where it is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from starlette.responses import Response

from odradek.client.cluster_view import Topic
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.pages.messages import decoder_of, wanted_of
from odradek.console.records.dead_letters import DeadLetter, dead_letter
from odradek.console.records.expression import BadExpression
from odradek.console.records.reading import RecordView, read_records
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.wording import counted

MAX_REDRIVEN: Final = 1000
_STARTS: Final = {
    "oldest": "From the beginning",
    "newest": "Newest first",
    "offset": "From an offset",
    "time": "From a time",
}
_POLL_MS: Final = 1000
_EMPTY_POLLS: Final = 5
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record of the preview. `problem` says why it cannot go back."""

    view: RecordView
    topic: str
    partition: int | None
    reason: str
    redriven: int
    problem: str

    @property
    def place(self) -> str:
        return f"{self.view.partition}:{self.view.offset}"


class RedrivePages(Pages):
    def endpoints(self) -> list[Endpoint]:
        path = "/topics/{topic}/redrive"
        return [
            self.shows(path, self._preview, "Dead letters, and where they would go."),
            self.changes(path, self._redrive, "Writes dead letters back."),
        ]

    async def _preview(self, asked: PageRequest, problem: str = "") -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        candidates: list[Candidate] | None = None
        stopped = ""
        if asked.query.has("start") and not problem:
            try:
                candidates, stopped = await self._candidates(asked, topic)
            except (BadForm, BadExpression) as error:
                problem = str(error)
        return asked.page(
            "redrive.html", "topics", 400 if problem else 200, topic=topic, tab="redrive",
            problem=problem, candidates=candidates, starts=_STARTS, stopped=stopped,
            fields=dict(asked.query.fields), max_redriven=MAX_REDRIVEN,
            plan=" ".join(found.place for found in candidates or () if not found.problem),
        )  # fmt: skip

    async def _candidates(self, asked: PageRequest, topic: Topic) -> tuple[list[Candidate], str]:
        if asked.query.text("start") not in _STARTS:
            raise BadForm(f"Show: one of {', '.join(_STARTS)}")
        limit = asked.query.number("limit", "At most", at_least=1, at_most=MAX_REDRIVEN) or 100
        wanted = replace(wanted_of(asked.query, topic), limit=limit, is_list=True)
        async with asked.clients.reader() as reader:
            found = await read_records(asked.admin, reader, topic, wanted, decoder_of(asked, topic))
        topics = await asked.admin.list_topics(include_internal=True)
        target = asked.query.text("target")
        return [_candidate(asked, view, target, topics) for view in found.records], found.stopped

    async def _redrive(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        target = asked.form.text("target")
        places = _places(asked.form.text("plan"))
        if not places:
            return await self._preview(asked, "There is nothing to write back.")
        topics = await asked.admin.list_topics(include_internal=True)
        written, total = 0, sum(map(len, places.values()))
        problem = ""
        try:
            async with asked.clients.reader() as reader:
                for record in await _read(reader, topic.name, places):
                    letter = dead_letter(record.headers)
                    to = target or letter.topic or ""
                    if problem := _problem(asked, topic.name, to, topics):
                        break
                    await asked.clients.producer.send_and_wait(
                        to, record.value, record.key, headers=letter.headers_again(),
                        partition=_partition(letter, to, target, topics),
                    )  # fmt: skip
                    written += 1
        except (ClientError, KafkaError) as error:
            problem = str(error)
        said = counted(written, "record was", "records were", spec=",")
        if problem:
            return await self._preview(
                asked, f"{said} written back, of {total:,}. Then it stopped: {problem}"
            )
        gone = f" {total - written:,} are not there any more." if written < total else ""
        asked.changed()
        return asked.go(
            asked.url("topics", topic.name, "redrive"), "good", f"{said} written back.{gone}"
        )


def _candidate(
    asked: PageRequest, view: RecordView, target: str, topics: Mapping[str, Topic]
) -> Candidate:
    letter = dead_letter([(name, value.encode()) for name, value in view.headers])
    to = target or letter.topic or ""
    problem = _problem(asked, view.topic, to, topics)
    partition = None if problem else _partition(letter, to, target, topics)
    return Candidate(view, to, partition, letter.reason, letter.redriven, problem)


def _problem(asked: PageRequest, source: str, to: str, topics: Mapping[str, Topic]) -> str:
    """Returns why a record cannot go to a topic."""
    if not to:
        return "it does not say where it is from: name a topic"
    if to == source:
        return "it would come back to this topic"
    if to not in topics:
        return f"there is no topic {to}"
    if not asked.cluster.masks(to).cover(asked.cluster.masks(source)):
        return f"its masked fields would be shown in {to}"
    return ""


def _partition(letter: DeadLetter, to: str, target: str, topics: Mapping[str, Topic]) -> int | None:
    """Returns the partition that the record was in, if it goes back there; else its key decides."""
    if target or letter.partition not in topics[to].partitions:
        return None
    return letter.partition


def _places(plan: str) -> dict[int, list[int]]:
    """Returns the offsets of each partition that the preview showed. Raises `BadForm`."""
    places: dict[int, list[int]] = {}
    for one in plan.split():
        partition, _, offset = one.partition(":")
        if not (partition.isdecimal() and offset.isdecimal() and len(one) < 30):
            raise BadForm("the plan cannot be read; make the preview again")
        places.setdefault(int(partition), []).append(int(offset))
    if sum(map(len, places.values())) > MAX_REDRIVEN:
        raise BadForm(f"{MAX_REDRIVEN:,} records at most go back at once")
    return places


async def _read(
    reader: Consumer, topic: str, places: Mapping[int, list[int]]
) -> list[ConsumerRecord]:
    """Returns the records at these offsets, as far as they are still there."""
    found: list[ConsumerRecord] = []
    for index, offsets in places.items():
        partition, left = TopicPartition(topic, index), sorted(set(offsets))
        reader.assign([partition])
        while left:
            polled = await _polled_from(reader, partition, left[0])
            found += [record for record in polled if record.offset in left]
            end = max((record.offset for record in polled), default=left[0])
            left = [offset for offset in left if offset > end]
    return found


async def _polled_from(
    reader: Consumer, partition: TopicPartition, offset: int
) -> list[ConsumerRecord]:
    """Returns what one fetch from an offset on has; nothing at the end of the log."""
    reader.seek(partition, offset)
    for _ in range(_EMPTY_POLLS):
        polled = await reader.poll(_POLL_MS, _AT_ONCE)
        if partition in polled:
            return polled[partition]
    return []
