"""/inserts-stream: a first line that names the stream, then a JSON object a line for each row.

Each row is answered with a line, `{"status":"ok","seq":0}`, when it is in its topic. Names of
columns match without case.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.sql.engine.access import Access
from odradek.sql.engine.engine import Engine
from odradek.sql.engine.inserting import encode
from odradek.sql.errors import Invalid, Place, SqlError
from odradek.sql.planning.sources import DataSource
from odradek.streams.formats.columns import BadRow, reader, to_json

_HERE = Place(1, 1)


class Inserts:
    def __init__(self, engine: Engine, max_line_bytes: int) -> None:
        """The request may be endless; a line of it may not."""
        self._engine = engine
        self._max_line_bytes = max_line_bytes

    async def as_array(self, request: Request, access: Access) -> AsyncGenerator[bytes]:
        """Yields the answers of all rows as one JSON array, for clients that ask for JSON."""
        before = b"["
        async for line in self.answer(request, access):
            yield before + line.rstrip(b"\n")
            before = b",\n"
        yield b"[]" if before == b"[" else b"]\n"

    async def answer(self, request: Request, access: Access) -> AsyncGenerator[bytes]:
        source: DataSource | None = None
        number = 0
        try:
            async for line in lines_of(request.stream(), self._max_line_bytes):
                content = msgspec.json.decode(line)
                if source is None:
                    source = self._target(content)
                    continue
                row, make = _row(content, source), self._engine.settings.defaults.make
                record = await asyncio.to_thread(encode, source, row, _HERE, make)
                await self._engine.insert(record, access)
                yield f"{to_json({'status': 'ok', 'seq': number})}\n".encode()
                number += 1
        except (SqlError, ClientError, KafkaError, msgspec.DecodeError, BadRow) as error:
            yield _failed(number, str(error))
        except RecursionError:
            yield _failed(number, "the row is nested too deeply")

    def _target(self, content: Any) -> DataSource:
        target = content.get("target") if isinstance(content, dict) else None
        if not isinstance(target, str):
            raise Invalid('the first line names the stream: {"target": "ORDERS"}')
        name = target[1:-1] if target[:1] in '`"' else target.upper()
        source = self._engine.catalogue.source(name)
        if source.is_table:
            raise Invalid(f"Cannot insert into a table: {name}")
        if source.is_read_only or source.window is not None:
            raise Invalid(f"Cannot insert into read-only or windowed stream: {name}")
        return source


def _row(content: Any, source: DataSource) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise Invalid("a row is a JSON object of columns with values")
    columns = {column.name: column for column in source.schema}
    row: dict[str, Any] = {}
    for given, value in content.items():
        quoted = given[:1] in '`"'
        name = given[1:-1] if quoted else given if given in columns else given.upper()
        if name not in columns:
            raise Invalid(f"{source.name} has no column {given}")
        row[name] = None if value is None else reader(columns[name].kind)(value)
    return row


def _failed(number: int, message: str) -> bytes:
    failed = {"status": "error", "seq": number, "error_code": 40000, "message": message}
    return f"{to_json(failed)}\n".encode()


async def lines_of(pieces: AsyncIterable[bytes], max_line_bytes: int) -> AsyncIterator[bytes]:
    """Yields the lines of a request as they come. Raises `Invalid` for one that is too long."""
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.strip():
                    yield bytes(line)
        if len(rest) > max_line_bytes:
            raise Invalid(f"a line has {max_line_bytes:,} bytes at most")
    if rest.strip():
        yield bytes(rest)
