"""Parses schemas and compares versions: the only part of a registry whose work can be heavy.

A question is plain data (`Question`), and so is its answer (`Answer`), because a heavy one is
answered by a process of its own: parsing runs Python code, which in a thread would take the
interpreter from all other requests. Light ones, by far the most, are answered at once; their
schemas stay parsed in a cache. A question that takes too long is given up, with its process, and
the client is told that the schema is too complicated.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import Any, Final

import msgspec

from odradek.registry import errors
from odradek.registry.records import Reference
from odradek.schemas.compatibility import Level, check
from odradek.schemas.errors import BadSchema, InvalidSchema
from odradek.schemas.inline_tags import SchemaTags, tags_in, with_tags
from odradek.schemas.parsed import ParsedSchema, parse
from odradek.schemas.parsed import Reference as ParsedReference
from odradek.world import World
from odradek.world.clock import Clock
from odradek.world.disk import Disk
from odradek.world.processes import Message, Worker, WorkerDied, WorkFailed

_HEAVY_CHARACTERS: Final = 40_000
_CACHED_CHARACTERS: Final = 1_000_000
_CACHED_TEXTS: Final = 1_000
_TIMEOUT_S: Final = 20.0


class Source(msgspec.Struct, frozen=True):
    """A schema with all the texts that it refers to, each after those that it needs itself."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    resolved: tuple[tuple[str, str], ...] = ()
    is_new: bool = True
    """Whether faults count that older registries let pass, such as wrong defaults in Avro."""

    @property
    def weight(self) -> int:
        return len(self.text) + sum(len(text) for _, text in self.resolved)


class Question(msgspec.Struct, frozen=True):
    """`earlier` are the versions to compare with, newest first."""

    new: Source
    normalize: bool = False
    earlier: tuple[Source, ...] = ()
    find_same: bool = False
    """Whether to look for the first of `earlier` that is the same schema."""
    level: str | None = None
    """The level by which the new schema must fit; None: it is not compared."""
    added: tuple[SchemaTags, ...] = ()
    removed: tuple[SchemaTags, ...] = ()
    """Inline tags that the new schema gets and loses before all else."""
    tags_from: Source | None = None
    """A schema whose inline tags the new one takes over, where it has the same places."""
    lists_tags: bool = False
    format: str = ""
    """The format in which the text of the answer is asked for; empty is the canonical one."""
    reserved: tuple[str, ...] | None = None
    """Names that no field may have; None: fields are not looked at."""

    @property
    def changes_tags(self) -> bool:
        return bool(self.added or self.removed or self.tags_from)


class Answer(msgspec.Struct, frozen=True):
    text: str
    """The new schema as it is stored."""
    same: int | None = None
    """Which of `earlier` is the same schema."""
    failed: int | None = None
    """The first of `earlier` that the new schema does not fit."""
    reasons: tuple[str, ...] = ()
    """Why it does not, in Confluent's notation."""
    tags: tuple[SchemaTags, ...] = ()
    """The inline tags of the new schema, if they were asked for."""


class Cache:
    """Parsed schemas, those used last."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[Source, ParsedSchema] = OrderedDict()
        self._weight = 0

    def parse(self, source: Source) -> ParsedSchema:
        for found in (source, msgspec.structs.replace(source, is_new=True)):
            known = self._parsed.get(found)
            if known is not None:
                self._parsed.move_to_end(found)
                return known
        references = [
            ParsedReference(*msgspec.structs.astuple(reference)) for reference in source.references
        ]
        parsed = parse(
            source.schema_type,  # type: ignore[arg-type]  # parse() checks it
            source.text,
            references,
            dict(source.resolved),
            is_new=source.is_new,
        )
        self._parsed[source] = parsed
        self._weight += source.weight
        while self._weight > _CACHED_CHARACTERS:
            oldest, _ = self._parsed.popitem(last=False)
            self._weight -= oldest.weight
        return parsed


def answer(question: Question, cache: Cache) -> Answer:
    """Answers a question, or raises `BadSchema`."""
    new = cache.parse(question.new)
    if question.format or question.lists_tags:
        return _shown(question, new)
    if question.changes_tags:
        new = cache.parse(_tagged(question, new.text, cache))
    if question.normalize:
        new = new.normalized()
    if question.find_same:
        for index, source in enumerate(question.earlier):
            if new.is_same(cache.parse(source)):
                return Answer(new.text, same=index)
    if question.reserved is not None:
        _check_names(new)
        reasons = tuple(
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in question.reserved
            if name in new.field_names
        )
        if reasons:
            return Answer(new.text, reasons=reasons)
    if question.level is not None:
        level = Level(question.level)
        compared = question.earlier if level.is_transitive else question.earlier[:1]
        for index, source in enumerate(compared):
            found = check(level, new, [cache.parse(source)])
            if found:
                reasons = tuple(one.described(new.schema_type) for one in found)
                return Answer(new.text, failed=index, reasons=reasons)
    return Answer(new.text)


def _shown(question: Question, schema: ParsedSchema) -> Answer:
    """Returns what is asked about a schema alone: its text in a format, or its inline tags."""
    tags = tags_in(schema.schema_type, schema.text) if question.lists_tags else ()
    return Answer(schema.formatted(question.format), tags=tuple(tags))


def _check_names(schema: ParsedSchema) -> None:
    for name in sorted(schema.field_names):
        if schema.schema_type == "JSON" and name.startswith("$$"):
            raise InvalidSchema(f"the name of the property {name[:100]!r} begins with $$")


def _tagged(question: Question, text: str, cache: Cache) -> Source:
    """Returns the new schema with the inline tags that it is to have."""
    kind = question.new.schema_type
    if question.tags_from is not None:
        old = tags_in(kind, cache.parse(question.tags_from).text)
        text = with_tags(kind, text, old, (), must_exist=False)
    text = with_tags(kind, text, question.added, question.removed)
    return msgspec.structs.replace(question.new, text=text)


def answer_in_process(
    disk: Disk, clock: Clock, argument: Mapping[str, Any]
) -> Generator[Message, None, Message]:
    """The work of the other process."""
    yield from ()
    try:
        found = answer(msgspec.convert(argument, Question), Cache())
    except BadSchema as error:
        return {"invalid": str(error)}
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]


class Judge:
    """Answers questions of a registry. Heavy ones wait for each other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cache = Cache()
        self._texts: OrderedDict[tuple[Source, bool], str] = OrderedDict()
        self._worker: Worker | None = None
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Raises `Refused` with the code of an invalid schema."""
        is_plain = question == Question(question.new, question.normalize)
        if is_plain and (known := self._texts.get((question.new, question.normalize))):
            return Answer(known)
        weight = question.new.weight + sum(source.weight for source in question.earlier[:20])
        try:
            if weight > _HEAVY_CHARACTERS:
                found = await self._ask_process(question)
            else:
                found = answer(question, self._cache)
        except BadSchema as error:
            raise errors.invalid_schema(str(error)) from None
        if is_plain and weight <= _HEAVY_CHARACTERS:
            self._texts[question.new, question.normalize] = found.text
            if len(self._texts) > _CACHED_TEXTS:
                self._texts.popitem(last=False)
        return found

    async def _ask_process(self, question: Question) -> Answer:
        async with self._turn:
            if self._worker is None:
                self._worker = self._world.processes.worker(self._world.disk, self._world.clock)
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    message = await self._worker.run(
                        answer_in_process, msgspec.to_builtins(question), lambda _: None
                    )
            except TimeoutError:
                raise errors.invalid_schema(
                    f"it was not parsed within {_TIMEOUT_S:.0f} s; it is too complicated"
                ) from None
            except (WorkFailed, WorkerDied) as error:
                raise errors.invalid_schema(f"it cannot be parsed: {error}") from None
        if "invalid" in message:
            raise errors.invalid_schema(str(message["invalid"]))
        return msgspec.convert(message, Answer)

    async def close(self) -> None:
        if self._worker is not None:
            await self._worker.end()
