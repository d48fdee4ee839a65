"""Decodes keys and values with their schemas, in a process of its own.

Decoding runs Python for every record and may take as long as a schema makes it take, so it never
runs in the broker's process. Batches are decoded one after the other. If a batch takes longer than
`_TIMEOUT_S` or ends the process, it is refused and the next batch gets a new process.
"""

import asyncio
import base64
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from odradek.broker.schema_validation.registered_ids import cannot_check
from odradek.broker.schema_validation.rules import SideRule
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_parser import parse_records
from odradek.protocol.types import Offset
from odradek.schemas.errors import RegistryFailed
from odradek.schemas.framing import SchemaId, id_text, identify
from odradek.world import World
from odradek.world.clock import Clock
from odradek.world.disk import Disk
from odradek.world.installing import install_line
from odradek.world.processes import Message, Worker, WorkerDied, WorkFailed

_TIMEOUT_S: Final = 10.0
_MISSING: Final = frozenset({"ModuleNotFoundError", "ImportError"})


class Part(NamedTuple):
    """Some records of a batch, which follow each other."""

    records: bytes
    first: int
    """The index of the first of them in the batch."""
    record_count: int
    known_faults: frozenset[int]
    """Indexes of records that need not be decoded."""


class Schemas(Protocol):
    """What `SchemaDecoder` needs of the registry; blocks, and raises `RegistryFailed`."""

    def source(self, schema_id: SchemaId) -> Message:
        """Returns a schema, as JSON that `schemas.decoding.decoder_of` reads."""
        ...


class SchemaDecoder:
    def __init__(self, schemas: Schemas, world: World) -> None:
        self._schemas = schemas
        self._workers = world.workers
        self._worker: Worker = world.processes.worker(world.disk, world.clock)
        self._turn = asyncio.Lock()

    async def faults(
        self, part: Part, rules: Iterable[SideRule], schema_ids: Iterable[SchemaId]
    ) -> dict[int, str]:
        """Returns why keys or values do not fit their schemas, by the index of their record.
        Raises `ApiError` if that cannot be known."""
        argument: Message = {
            "schemas": await self._sources(schema_ids),
            "sides": [rule.side for rule in rules],
            "records": base64.b64encode(part.records).decode(),
            "first": part.first,
            "count": part.record_count,
            "known_faults": sorted(part.known_faults),
        }
        try:
            async with self._turn, asyncio.timeout(_TIMEOUT_S):
                answer = await self._worker.run(decode, argument, lambda _: None)
        except TimeoutError:
            reason = f"decoding took longer than {_TIMEOUT_S:g} s"
        except WorkerDied as error:
            reason = f"decoding failed: {error}"
        except WorkFailed as error:
            if error.kind in _MISSING:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    "odradek.schema.validation.content needs a package that the broker lacks"
                    f" ({error}): {install_line('schemas')}",
                ) from error
            reason = f"decoding failed: {error}"
        else:
            found = answer["faults"]
            assert isinstance(found, list)
            return {int(index): str(text) for index, text in found}
        raise ApiError(ErrorCode.INVALID_RECORD, f"schema validation: {reason}")

    async def _sources(self, schema_ids: Iterable[SchemaId]) -> Message:
        sources: Message = {}
        for schema_id in sorted(schema_ids, key=id_text):
            ask = partial(self._schemas.source, schema_id)
            try:
                sources[id_text(schema_id)] = await self._workers.run_blocking(ask)
            except RegistryFailed as error:
                raise cannot_check(schema_id, str(error)) from error
        return sources

    async def close(self) -> None:
        await self._worker.end()


def decode(
    disk: Disk, clock: Clock, argument: Mapping[str, Any]
) -> Generator[Message, None, Message]:
    """The work: decodes the keys and values of a part, and returns its faults."""
    from odradek.schemas.decoding import decoder_of  # noqa: PLC0415 - the worker's alone

    decoders = {name: decoder_of(source) for name, source in argument["schemas"].items()}
    known = set(argument["known_faults"])
    records = parse_records(
        base64.b64decode(argument["records"]), argument["count"], Offset(0), 0, None
    )
    faults = []
    for index, record in enumerate(records, argument["first"]):
        for side in argument["sides"]:
            data = record.value if side == "value" else record.key
            if data is None or index in known:
                continue
            found = identify(data, record.headers, side)
            name = id_text(found.schema)
            reason = decoders[name](data, found)
            if reason is not None:
                known.add(index)
                faults.append([index, f"the {side} does not fit schema {name}: {reason}"])
    yield {"pause_s": 0.0}
    return {"faults": faults}
