"""What the answer of a query is: columns, and rows as they come (`pushing`, `pulling`)."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from odradek.streams.plan.types import Column


@dataclass(frozen=True, slots=True)
class ResultRow:
    values: tuple[Any, ...]
    is_deleted: bool = False
    """Whether a row of a table is deleted. Its values are null, but for the key."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Answer:
    """Whoever gets one calls `close`, whether the rows were read or not."""

    columns: tuple[Column, ...]
    rows: AsyncGenerator[list[ResultRow]]
    """The next rows are computed when they are asked for, so a slow reader costs no memory."""
    is_push: bool
    release: Callable[[], Awaitable[None]] = _nothing

    async def close(self) -> None:
        await self.rows.aclose()
        await self.release()
