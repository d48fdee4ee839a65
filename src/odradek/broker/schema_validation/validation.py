"""Checks the batches of producers against the schemas that are registered for their topic.

Produce calls `check` for a batch that it has validated otherwise, before it appends it. Nothing is
decoded on the event loop: by default only the first five bytes of each key and value are read,
which name a schema. If the name of Confluent's header is somewhere in the batch, records are parsed
for it too (`header_ids`). A batch with wrong records is refused, with the index and the reason of
each; or the wrong records are diverted to the dead-letter topic, and the batch is rewritten without
them as compaction does: it keeps its offsets, its producer and its sequence numbers, so a producer
that sends it again is told that it is there already.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from odradek.broker.schema_validation.asked_registry import AskedRegistry
from odradek.broker.schema_validation.content import Part, SchemaDecoder
from odradek.broker.schema_validation.dead_letters import DeadLetters
from odradek.broker.schema_validation.header_ids import header_ids
from odradek.broker.schema_validation.registered_ids import RegisteredIds
from odradek.broker.schema_validation.rules import SideRule, TopicRules, rules_of
from odradek.cluster.topics import Topics
from odradek.config import TopicSettings
from odradek.config.live import LiveSettings
from odradek.metadata import MetadataCache
from odradek.protocol.api_error import ApiError
from odradek.protocol.batch_rewriting import with_records, without_records
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_keys import decompress_payload
from odradek.protocol.record_parser import parse_records
from odradek.protocol.record_prefixes import PREFIX_BYTES, Side, prefixes
from odradek.protocol.record_scan import record_bounds
from odradek.protocol.records import (
    BatchHeader,
    DecompressedBatchTooLarge,
    MalformedRecords,
    Record,
    read_header,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.peers import Peers
from odradek.schemas.errors import BadPayload
from odradek.schemas.framing import SchemaId, header_name, identify_header
from odradek.storage.validation import MAX_LOCKED_DECOMPRESSED_BYTES, ValidatedBatch
from odradek.world import Workers, World
from odradek.world.timeslice import Timeslice

_MAGIC: Final = 0
# How many records are read between two looks at the clock: about a millisecond's work.
_STEP_RECORDS: Final = 2_000
# The answer lists only the first faults of a batch.
_MAX_RECORD_ERRORS: Final = 100

# Each of them is a question to the registry, so a batch with more is refused in any case.
_MAX_UNKNOWN_IDS: Final = 100

Faults = dict[int, str]
"""Why records are refused, by their index in the batch."""


class SchemaValidation:
    """Checks batches, for all topics of a broker.

    Invariant: a batch that `check` returns has only records that fit their rules, and the offsets,
    producer and sequence numbers of the batch that it was given.
    """

    def __init__(
        self,
        ids: RegisteredIds,
        decoder: SchemaDecoder,
        dead_letters: DeadLetters,
        workers: Workers,
    ) -> None:
        self._ids = ids
        self._decoder = decoder
        self._dead_letters = dead_letters
        self._workers = workers
        # Batches that are larger than others when they are decompressed are so one at a time.
        self._large = asyncio.Lock()
        self.rejected = 0
        """How many records were found wrong in batches that were refused, for metrics."""
        self.diverted = 0

    async def check(
        self, topic_partition: TopicPartition, settings: TopicSettings, batch: ValidatedBatch
    ) -> ValidatedBatch:
        """Returns the batch to append. Raises `ApiError`."""
        rules = rules_of(topic_partition.topic, settings)
        header = batch.header
        payload = await self._payload(batch)
        try:
            faults = await self._faults(rules, payload, header.record_count)
        except MalformedRecords as error:
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
        if not faults:
            return batch
        if not rules.diverts:
            self.rejected += len(faults)
            raise _refused(faults)
        bounds = await self._workers.compute(partial(record_bounds, payload, header.record_count))
        wrong = (
            (_record(payload, bounds, index, header), faults[index]) for index in sorted(faults)
        )
        await self._dead_letters.write(rules.dead_letter_topic, topic_partition, wrong)
        self.diverted += len(faults)
        kept = [
            payload[bounds[index] : bounds[index + 1]]
            for index in range(header.record_count)
            if index not in faults
        ]
        rebuild = partial(with_records, header, kept) if kept else partial(without_records, header)
        rebuilt = await self._workers.compute(rebuild)
        new_header = read_header(rebuilt)
        assert new_header.last_offset_delta == header.last_offset_delta
        assert new_header.base_sequence == header.base_sequence
        assert new_header.record_count == header.record_count - len(faults)
        return ValidatedBatch(rebuilt, new_header)

    async def _payload(self, batch: ValidatedBatch) -> bytes:
        open_batch = partial(
            decompress_payload,
            batch.records,
            batch.header,
            max_bytes=MAX_LOCKED_DECOMPRESSED_BYTES,
        )
        if not batch.header.codec:
            return open_batch()
        try:
            async with self._large:
                return await self._workers.compute(open_batch)
        except DecompressedBatchTooLarge as error:
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
        except MalformedRecords as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None

    async def _faults(self, rules: TopicRules, payload: bytes, count: int) -> Faults:
        """Returns the faults of the records: of all, if they are to be diverted, else of as many as
        the answer lists."""
        faults: Faults = {}
        unknown: set[SchemaId] = set()
        timeslice = Timeslice.of_running_loop()
        position = 0
        for first in range(0, count, _STEP_RECORDS):
            if timeslice.is_over():
                await timeslice.next_turn()
            step = min(_STEP_RECORDS, count - first)
            ids: set[SchemaId] = set()
            end = position
            for rule in rules.sides:
                found, end = prefixes(rule.side, payload, step, first, position)
                records = partial(_between, payload, position, end)
                name = header_name(rule.side).encode()
                has_headers = payload.find(name, position, end) >= 0
                side = _Side(rule, found, records, has_headers=has_headers)
                for index, reason in (await self._side_faults(side, ids, unknown)).items():
                    faults.setdefault(first + index, reason)
            if len(unknown) > _MAX_UNKNOWN_IDS:
                raise _refused(faults)
            if rules.decodes:
                part = Part(payload[position:end], first, step, frozenset(faults))
                faults.update(await self._decoder.faults(part, rules.sides, ids))
            if not rules.diverts and len(faults) >= _MAX_RECORD_ERRORS:
                break
            position = end
        return faults

    async def _side_faults(
        self, side: "_Side", ids: set[SchemaId], unknown: set[SchemaId]
    ) -> Faults:
        """Returns why keys or values are refused, by their index in `side.prefixes`. Adds the
        schemas of the others to `ids`, and those that are refused to `unknown`.

        A record that has the header is judged by the header alone, as readers do: its payload may
        begin with anything, also with an id that is right.
        """
        rule, named = side.rule, set(side.prefixes)
        headers: dict[int, bytes] = {}
        if side.has_headers:
            indexes = (index for index, prefix in enumerate(side.prefixes) if prefix is not None)
            headers = await header_ids(rule.side, side.records(), len(side.prefixes), indexes)
        if headers:
            named = {p for index, p in enumerate(side.prefixes) if index not in headers}
        prefixes_read = [
            (prefix, _id_of_prefix(rule.side, prefix)) for prefix in named if prefix is not None
        ]
        by_prefix = await self._refusals(rule, prefixes_read, ids, unknown)
        headers_read = [(text, _id_of_header(rule.side, text)) for text in set(headers.values())]
        by_header = await self._refusals(rule, headers_read, ids, unknown)
        if not by_prefix and not by_header:
            return {}
        faults: Faults = {}
        for index, prefix in enumerate(side.prefixes):
            header = headers.get(index)
            refusals, found = (by_prefix, prefix) if header is None else (by_header, header)
            if found is not None and found in refusals:
                faults[index] = refusals[found]
        return faults

    async def _refusals(
        self,
        rule: SideRule,
        read: "Iterable[tuple[bytes, _Read]]",
        ids: set[SchemaId],
        unknown: set[SchemaId],
    ) -> dict[bytes, str]:
        """Returns why prefixes or headers are refused, whose ids have been read."""
        refusals: dict[bytes, str] = {}
        # In an order that does not depend on the hashes of bytes.
        for text, (schema_id, fault) in sorted(read, key=itemgetter(0)):
            if schema_id is None:
                refusals[text] = fault
                continue
            refusal = await self._ids.refusal(rule, schema_id)
            if refusal is None:
                ids.add(schema_id)
                continue
            refusals[text] = refusal
            unknown.add(schema_id)
            if len(unknown) > _MAX_UNKNOWN_IDS:
                break
        return refusals

    async def run(self) -> None:
        """Ends the decoding process and the questions to the registry when it is cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._ids.close()
            await self._decoder.close()


def open_schema_validation(
    world: World, settings: LiveSettings, topics: Topics, cache: MetadataCache, peers: Peers
) -> SchemaValidation:
    """Makes it for a broker that has `confluent.schema.registry.url`. Raises `InvalidSetting`."""
    registry = AskedRegistry(settings.broker)
    return SchemaValidation(
        RegisteredIds(registry, settings, world),
        SchemaDecoder(registry, world),
        DeadLetters(settings, topics, cache, peers),
        world.workers,
    )


class _Side(NamedTuple):
    """The keys or the values of some records of a batch."""

    rule: SideRule
    prefixes: list[bytes | None]
    records: Callable[[], bytes]
    has_headers: bool
    """Whether records may have the header: its name is somewhere in their bytes."""


class _Read(NamedTuple):
    """The schema that a prefix or a header names, or why it names none."""

    schema_id: SchemaId | None
    fault: str = ""


def _id_of_prefix(side: Side, prefix: bytes) -> _Read:
    schema_id = _schema_id(prefix)
    if schema_id >= 0:
        return _Read(schema_id)
    begin = prefix.hex(" ") or "nothing"
    return _Read(None, f"the {side} begins with {begin}, not with 00 and the id of a schema")


def _id_of_header(side: Side, content: bytes) -> _Read:
    try:
        return _Read(identify_header(content, side).schema)
    except BadPayload as error:
        return _Read(None, str(error))


def _between(payload: bytes, begin: int, end: int) -> bytes:
    return payload[begin:end]


def _schema_id(prefix: bytes) -> int:
    if len(prefix) < PREFIX_BYTES or prefix[0] != _MAGIC:
        return -1
    return int.from_bytes(prefix[1:], "big")


def _refused(faults: Faults) -> ApiError:
    """Returns the answer to a producer, which names the first wrong records."""
    listed = tuple(sorted(faults.items())[:_MAX_RECORD_ERRORS])
    return ApiError(ErrorCode.INVALID_RECORD, f"schema validation: {listed[0][1]}", listed)


def _record(payload: bytes, bounds: list[int], index: int, header: BatchHeader) -> Record:
    """Returns one record of a batch, with the timestamp that the batch gives to it."""
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    record = payload[bounds[index] : bounds[index + 1]]
    return parse_records(record, 1, header.base_offset, header.base_timestamp, append_time_ms)[0]
