"""The pages that show, search and download the records of a topic."""

import asyncio
import json
import shlex
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from odradek.client.cluster_view import Topic
from odradek.client.errors import UnsupportedVersion
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.console.pages.producing import ProducingPages
from odradek.console.records import parquet
from odradek.console.records.decoding import HOW, Decoded, Decoder
from odradek.console.records.expression import BadExpression, Filter
from odradek.console.records.reading import (
    MAX_SHOWN,
    Found,
    RecordView,
    Wanted,
    read_records,
    view_of,
)
from odradek.console.rendering import HEADERS, iso
from odradek.console.times import time_ms
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem

JSON_LINES: Final = "application/x-ndjson"
_MAX_DOWNLOADED: Final = 10_000
_STARTS: Final = {
    "newest": "Newest first",
    "oldest": "From the beginning",
    "offset": "From an offset",
    "time": "From a time",
    "key": "Newest record of a key",
    "live": "Live tail",
}


class _NoKeyIndex(BadForm):
    """The brokers cannot look a key up."""


class MessagePages(Pages):
    def endpoints(self) -> list[Endpoint]:
        topic = "/topics/{topic}"
        return [
            self.shows(f"{topic}/messages", self._messages, "Records of a topic."),
            self.shows(
                f"{topic}/messages/{{partition:int}}/{{offset:int}}", self._record, "One record."
            ),
            self.shows(
                f"{topic}/download", self._download, "Records as lines of JSON, or as Parquet.",
                produces=(JSON_LINES, parquet.PARQUET),
            ),
            *ProducingPages(self.console).endpoints(),
        ]  # fmt: skip

    async def _messages(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        query = asked.query
        start = query.text("start", "newest")
        context: dict[str, Any] = {
            "topic": topic, "tab": "messages", "starts": _STARTS, "how": HOW, "start": start,
            "fields": dict(query.fields), "found": None, "problem": "", "next_url": "",
            "download_url": asked.url("topics", topic.name, "download", **dict(query.fields)),
            "parquet_url": asked.url(
                "topics", topic.name, "download", **{**dict(query.fields), "as": "parquet"}
            ),
            "search_url": "", "is_masked": bool(asked.cluster.masks(topic.name)),
        }  # fmt: skip
        try:
            if start == "key":
                context["found"] = await self._by_key(asked, topic)
            elif start != "live":
                wanted = replace(wanted_of(query, topic), is_list=True)
                found = await self._read(asked, topic, wanted)
                context["found"] = found
                if found.next_places:
                    fields = {**dict(query.fields), "places": places_text(found.next_places)}
                    context["next_url"] = asked.url("topics", topic.name, "messages", **fields)
            elif text := query.text("filter"):
                Filter(text)
        except _NoKeyIndex as error:
            context["problem"], context["search_url"] = str(error), _search_url(asked, topic)
        except (BadForm, BadExpression) as error:
            context["problem"] = str(error)
        return asked.page("messages.html", "topics", 400 if context["problem"] else 200, **context)

    async def _read(self, asked: PageRequest, topic: Topic, wanted: Wanted) -> Found:
        async with asked.clients.reader() as reader:
            return await read_records(asked.admin, reader, topic, wanted, decoder_of(asked, topic))

    async def _by_key(self, asked: PageRequest, topic: Topic) -> Found | None:
        text = asked.query.raw("key")
        if not text:
            return None
        if asked.cluster.masks(topic.name).concern("key"):
            # Otherwise a user could find out which keys exist by guessing them.
            raise BadForm("keys of this topic are masked, so records cannot be looked up by key")
        async with asked.clients.reader() as reader:
            try:
                # Any partition may have the key, because its producer may use any partitioner.
                record = await reader.get(topic.name, text.encode(), all_partitions=True)
            except UnsupportedVersion:
                raise _NoKeyIndex(
                    "only Odradek's brokers have an index of keys; these brokers can be searched"
                    " for it, record by record"
                ) from None
        if record is None:
            return Found([], 0, {})
        return Found([await view_of(record, decoder_of(asked, topic))], 1, {})

    # One record

    async def _record(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        partition, offset = int(asked.path["partition"]), int(asked.path["offset"])
        view = await one_record(asked, topic, partition, offset)
        if view is None:
            raise Problem(
                404,
                f"{topic.name} has no record at offset {offset} of partition {partition}: it was"
                " deleted by retention or compaction, or is not written yet",
            )
        return asked.page(
            "record.html", "topics", topic=topic, tab="messages", view=view, how=HOW,
            fields=dict(asked.query.fields),
            kcat=_kcat(asked, view), python=_python(asked, view),
        )  # fmt: skip

    # Downloads

    async def _download(self, asked: PageRequest) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        try:
            wanted = replace(wanted_of(asked.query, topic), limit=_MAX_DOWNLOADED)
        except BadExpression as error:
            raise BadForm(str(error)) from None
        is_parquet = asked.query.text("as") == "parquet"
        if is_parquet and (advice := parquet.missing()):
            raise Problem(400, advice)
        found = await self._read(asked, topic, wanted)
        lines = [line_of(view) for view in found.records]
        if is_parquet:
            content = await asyncio.to_thread(parquet.written, lines)
            ending, media_type = "parquet", parquet.PARQUET
        else:
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            content, ending, media_type = text.encode(), "jsonl", JSON_LINES
        name = "".join(char if char.isalnum() or char in "._-" else "_" for char in topic.name)
        # The name of a file that does not have all of the records says so.
        part = "-part" if found.next_places else ""
        headers = {
            **HEADERS,
            "content-disposition": f'attachment; filename="{name}{part}.{ending}"',
            "cache-control": "no-store",
        }
        return Response(content, 200, headers, media_type)


def _search_url(asked: PageRequest, topic: Topic) -> str:
    """Returns the page that reads the topic backward until it finds the key. The key is compared as
    text, as it was typed: a key of digits would be a number otherwise."""
    fields = {
        "start": "newest",
        "limit": "1",
        "key_as": "text",
        "value_as": asked.query.text("value_as"),
        "filter": f"key == {asked.query.raw('key')!r}",
    }
    return asked.url("topics", topic.name, "messages", **fields)


def wanted_of(query: Form, topic: Topic) -> Wanted:
    """Returns which records the query of the page asks for. Raises `BadForm` or `BadExpression`."""
    start = query.text("start", "newest")
    if start not in _STARTS:
        raise BadForm(f"Start: one of {', '.join(_STARTS)}")
    offset = timestamp_ms = None
    if start == "offset":
        offset = query.number("offset", "Offset")
        if offset is None:
            raise BadForm("Offset: enter the first offset")
    if start == "time":
        timestamp_ms = time_ms(query.text("time"))
    partitions = tuple(sorted({int(part) for part in _partitions(query.text("partition"))}))
    unknown = [index for index in partitions if index not in topic.partitions]
    if unknown:
        raise BadForm(
            f"Partition: {topic.name} has no partition {unknown[0]}; it has 0 to"
            f" {len(topic.partitions) - 1}"
        )
    text = query.text("filter")
    return Wanted(
        partitions, start == "newest", offset, timestamp_ms, places_of(query.text("places")),
        query.number("limit", "Records", at_least=1, at_most=MAX_SHOWN) or 50,
        query.text("q"), Filter(text) if text else None,
    )  # fmt: skip


def _partitions(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise BadForm("Partition: numbers separated by commas")
    return parts


def places_of(text: str) -> dict[int, int]:
    """Returns the offset at which the page goes on, for each partition; `places_text` wrote it."""
    places = {}
    for part in text.split(",") if text else ():
        index, _, offset = part.partition(":")
        if not (index.isdecimal() and offset.isdecimal() and len(index) < 10 and len(offset) < 20):
            raise BadForm("the URL of this page is incomplete; go back to the first page")
        places[int(index)] = int(offset)
    return places


def places_text(places: dict[int, int]) -> str:
    """Returns the offsets of the next page for its URL."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(places.items()))


def decoder_of(asked: PageRequest, topic: Topic) -> Decoder:
    how = {part: asked.query.text(f"{part}_as", "auto") for part in ("key", "value")}
    known = {part: name for part, name in how.items() if name in HOW}
    masks = asked.cluster.masks(topic.name)
    return Decoder(asked.cluster.formats.of(asked.clients), masks, known)


async def one_record(
    asked: PageRequest, topic: Topic, partition: int, offset: int
) -> RecordView | None:
    """Returns the record at an offset, decoded and masked; None if there is none. Raises `Problem`
    if it could not be read."""
    if partition not in topic.partitions:
        return None
    wanted = Wanted((partition,), is_backward=False, offset=offset, limit=1)
    async with asked.clients.reader() as reader:
        found = await read_records(asked.admin, reader, topic, wanted, decoder_of(asked, topic))
    if not found.records or found.records[0].offset != offset:
        if found.notes:
            raise Problem(503, found.notes[0])
        return None
    return found.records[0]


def line_of(view: RecordView) -> dict[str, Any]:
    """Returns a record as a line of a download, which the page Import can read."""
    return {
        "partition": view.partition,
        "offset": view.offset,
        "timestamp": iso(view.timestamp_ms),
        "key": view.key.data,
        "key_format": _format(view.key),
        "value": view.value.data,
        "value_format": _format(view.value),
        "headers": [list(header) for header in view.headers],
    }


def _format(decoded: Decoded) -> str:
    if decoded.is_masked:
        return "masked"
    return {"bytes": "hex", "JSON": "json"}.get(decoded.kind, decoded.kind)


def _kcat(asked: PageRequest, view: RecordView) -> str:
    servers = shlex.quote(asked.cluster.servers)
    return (
        f"kcat -C -b {servers} -t {shlex.quote(view.topic)} -p {view.partition}"
        f" -o {view.offset} -c 1 -f '%T %k %s %h\\n'"
    )


def _python(asked: PageRequest, view: RecordView) -> str:
    return (
        "import asyncio\n"
        "from odradek.client import Consumer, TopicPartition\n\n\n"
        "async def main():\n"
        f"    async with Consumer(bootstrap_servers={asked.cluster.servers!r}) as consumer:\n"
        f"        partition = TopicPartition({view.topic!r}, {view.partition})\n"
        "        consumer.assign([partition])\n"
        f"        consumer.seek(partition, {view.offset})\n"
        "        print((await consumer.poll(10_000, 1))[partition][0])\n\n\n"
        "asyncio.run(main())\n"
    )
