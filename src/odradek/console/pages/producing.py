"""Writing records: one by a form, also as a copy of another, and many from lines of JSON."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.responses import Response

from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.console.records import parquet
from odradek.console.records.masks import HIDDEN
from odradek.protocol.errors import KafkaError
from odradek.rest.schema_formats import SchemaOf
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.wording import counted

FORMATS: Final = {
    "text": "Text",
    "json": "JSON (checked)",
    "hex": "Hexadecimal",
    "schema": "JSON, by the newest schema of the topic",
    "null": "No value (tombstone)",
}
_MAX_IMPORTED: Final = 10_000
_MAX_SHOWN: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Record:
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


class ProducingPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        topic = "/topics/{topic}"
        return [
            self.shows(f"{topic}/produce", self._form, "The form for a record."),
            self.changes(f"{topic}/produce", self._produce, "Writes a record."),
            self.shows(f"{topic}/import", self._import_form, "The form for many records."),
            self.changes(f"{topic}/import", self._import, "Writes records from lines of JSON."),
        ]

    async def _form(self, asked: PageRequest) -> Response:
        fields: dict[str, str] = {}
        problem = ""
        source = asked.query.text("from")
        if source:
            try:
                fields = await _copied(asked, source)
            except BadForm as error:
                problem = str(error)
        return await self._page(asked, fields, problem)

    async def _page(
        self, asked: PageRequest, fields: dict[str, str], problem: str = ""
    ) -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        formats = {
            name: label
            for name, label in FORMATS.items()
            if name != "schema" or asked.cluster.has_registry
        }
        return asked.page(
            "produce.html", "topics", 400 if problem else 200, topic=topic, tab="messages",
            fields=fields, problem=problem, formats=formats,
        )  # fmt: skip

    async def _produce(self, asked: PageRequest) -> Response:
        topic = str(asked.path["topic"])
        form = asked.form
        try:
            record = _Record(
                await _content(
                    asked, form.text("key_format", "text"), form.raw("key"), is_key=True
                ),
                await _content(
                    asked, form.text("value_format", "text"), form.raw("value"), is_key=False
                ),
                form.number("partition", "Partition", at_most=2**31 - 1),
                headers_of(form),
            )
            if record.partition is not None:
                known = (await asked.topic(topic)).partitions
                if record.partition not in known:
                    raise BadForm(f"Partition: {topic} has 0 to {len(known) - 1}")
            written = await asked.clients.producer.send_and_wait(
                topic, record.value, record.key, partition=record.partition,
                headers=record.headers,
            )  # fmt: skip
        except (BadForm, ValueError) as error:
            return await self._page(asked, dict(form.fields), str(error))
        except (ClientError, KafkaError) as error:
            return await self._page(asked, dict(form.fields), f"The brokers refused it: {error}")
        except Problem as problem:
            return await self._page(asked, dict(form.fields), problem.message)
        url = asked.url("topics", topic, "messages", written.partition, written.offset)
        return asked.go(
            url, "good",
            f"Written to partition {written.partition} at offset {written.offset}.",
        )  # fmt: skip

    # Many

    async def _import_form(self, asked: PageRequest, problem: str = "") -> Response:
        topic = await asked.topic(str(asked.path["topic"]))
        return asked.page(
            "import.html", "topics", 400 if problem else 200, topic=topic, tab="messages",
            problem=problem, lines=asked.form.raw("lines"), max_imported=_MAX_IMPORTED,
        )  # fmt: skip

    async def _import(self, asked: PageRequest) -> Response:
        topic = str(asked.path["topic"])
        try:
            lines = await _lines(asked)
            if not 0 < len(lines) <= _MAX_IMPORTED:
                raise BadForm(f"{len(lines):,} at once: there must be 1 to {_MAX_IMPORTED:,}")
            # All are read before the first is written: a bad line changes nothing.
            records = [await _imported(asked, line, number) for number, line in enumerate(lines, 1)]
            producer = asked.clients.producer
            waiting = [
                await producer.send(
                    topic, record.value, record.key, partition=record.partition,
                    headers=record.headers,
                )
                for record in records
            ]  # fmt: skip
            for future in waiting:
                await future
        except (BadForm, ValueError) as error:
            return await self._import_form(asked, str(error))
        except (ClientError, KafkaError) as error:
            return await self._import_form(asked, f"The brokers refused it: {error}")
        return asked.go(
            asked.url("topics", topic, "messages"),
            "good",
            counted(len(records), "record was", "records were", spec=",") + " written.",
        )


async def _lines(asked: PageRequest) -> list[str]:
    """Returns the lines of the form: of the text, or of a Parquet file."""
    encoded = asked.form.raw("parquet")
    if not encoded:
        return [line for line in asked.form.raw("lines").splitlines() if line.strip()]
    if advice := parquet.missing():
        raise BadForm(advice)
    try:
        return await asyncio.to_thread(parquet.read, encoded, _MAX_IMPORTED)
    except parquet.BadParquet as error:
        raise BadForm(f"The file: {error}") from None


async def _content(asked: PageRequest, kind: str, text: str, *, is_key: bool) -> bytes | None:
    """Returns the bytes of a key or value as the form gives it."""
    label = "Key" if is_key else "Value"
    if kind == "null" or (is_key and not text):
        return None
    # Browsers send line breaks as two characters.
    text = text.replace("\r\n", "\n")
    if HIDDEN in text:
        raise BadForm(f"{label}: it has masked parts ({HIDDEN}); write what they should be")
    if kind == "text":
        return text.encode()
    if kind == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise BadForm(f"{label}: this is not hexadecimal, as in 00 ff 10") from None
    try:
        content = msgspec.json.format(text.encode(), indent=-1)
        msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadForm(f"{label}: this is not JSON: {error}") from None
    if kind == "json":
        return content
    if kind != "schema":
        raise BadForm(f"{label}: the format is one of {', '.join(FORMATS)}")
    formats = asked.cluster.formats.of(asked.clients)
    topic = str(asked.path["topic"])
    written = await formats.write(topic, SchemaOf(None), msgspec.Raw(content), is_key=is_key)
    return written.content


def headers_of(form: Form) -> list[tuple[str, bytes | None]]:
    """Returns the headers that lines `name: value` give."""
    headers: list[tuple[str, bytes | None]] = []
    for line in form.raw("headers").splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise BadForm(f"Headers: {line.strip()[:60]!r} is not name: value")
        if HIDDEN in value:
            raise BadForm("Headers: one is masked; write what it should be")
        headers.append((name.strip(), value.strip().encode()))
    return headers


async def _copied(asked: PageRequest, source: str) -> dict[str, str]:
    """Returns the fields of the form for a copy of a record, masked as it is shown."""
    from odradek.console.pages.messages import one_record  # noqa: PLC0415 - it imports this module

    partition, _, offset = source.partition(":")
    if not (partition.isdecimal() and offset.isdecimal() and len(partition + offset) < 25):
        raise BadForm("the record to copy is named PARTITION:OFFSET")
    topic = await asked.topic(str(asked.path["topic"]))
    view = await one_record(asked, topic, int(partition), int(offset))
    if view is None:
        raise BadForm("the record to copy is not there any more")
    fields = {
        "partition": "",
        "headers": "\n".join(f"{name}: {text}" for name, text in view.headers),
    }
    for part, decoded in (("key", view.key), ("value", view.value)):
        kind = {"JSON": "json", "text": "text", "null": "null", "bytes": "hex"}.get(
            decoded.kind, "schema"
        )
        if part == "key" and kind == "null":
            kind = "text"
        fields[f"{part}_format"] = kind
        shown = decoded.data if kind == "hex" else decoded.text
        fields[part] = "" if decoded.is_null else str(shown)[:_MAX_SHOWN]
    return fields


async def _imported(asked: PageRequest, line: str, number: int) -> _Record:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadForm(f"Line {number} is not JSON: {error}") from None
    if not isinstance(given, dict) or not ("value" in given or "key" in given):
        raise BadForm(f'Line {number} is not a record, such as {{"key": "a", "value": {{"n": 1}}}}')
    parts: dict[str, bytes | None] = {}
    for part in ("key", "value"):
        kind = str(given.get(f"{part}_format", _format_of(given.get(part))))
        kind = kind if kind in FORMATS else "schema"
        data = given.get(part)
        text = data if isinstance(data, str) and kind != "json" else json.dumps(data)
        if data is None:
            kind = "null"
        try:
            parts[part] = await _content(asked, kind, text, is_key=part == "key")
        except (BadForm, Problem) as error:
            raise BadForm(f"Line {number}: {error}") from None
    return _Record(parts["key"], parts["value"], None, _imported_headers(given, number))


def _format_of(data: Any) -> str:
    return "text" if isinstance(data, str) else "json"


def _imported_headers(given: dict[str, Any], number: int) -> list[tuple[str, bytes | None]]:
    try:
        return [
            (str(name), None if value is None else str(value).encode())
            for name, value in given.get("headers") or []
        ]
    except (TypeError, ValueError):
        raise BadForm(f'Line {number}: headers are pairs, as in [["name", "value"]]') from None
