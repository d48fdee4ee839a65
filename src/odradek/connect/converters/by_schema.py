"""What a converter has made of a schema, so that it is made once and not for each record."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from odradek.connect.data.schemas import Schema

T = TypeVar("T")

DEFAULT_CAPACITY = 1000


class BySchema(Generic[T]):
    """Makes a thing for each schema, and keeps those of the last `capacity` schemas.

    To hash a schema takes longer than to write a small record, so an object that was seen lately is
    found by its identity first: the records of a source share their schema.
    """

    def __init__(self, make: Callable[[Any], T], capacity: int = DEFAULT_CAPACITY) -> None:
        self._made = lru_cache(capacity)(make)
        self._capacity = capacity
        # The schema is kept too: without it another one could get its identity.
        self._seen: dict[int, tuple[Schema | None, T]] = {}

    def get(self, schema: Schema | None) -> T:
        seen = self._seen.get(id(schema))
        if seen is not None:
            return seen[1]
        made = self._made(schema)
        if len(self._seen) >= self._capacity:
            self._seen.clear()
        self._seen[id(schema)] = schema, made
        return made
