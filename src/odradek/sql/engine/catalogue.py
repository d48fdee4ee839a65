"""Streams, tables, types and queries by name. Pure state: every server makes the same of the same
statements in the same order (`commands`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Place
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.types import SqlType


@dataclass
class QueryInfo:
    """A persistent query."""

    id: str
    text: str
    sink: str
    sources: tuple[str, ...]
    properties: dict[str, str] = field(default_factory=dict)
    start: dict[str, list[int]] = field(default_factory=dict)
    """Where it begins to read the topics that it reads from their end: an offset a partition."""
    is_paused: bool = False
    creates_sink: bool = True
    """Whether it was made by CREATE ... AS SELECT, and ends with its sink."""
    known: Mapping[str, DataSource] = field(default_factory=dict)
    """The streams and tables that it names, as they were when it was made."""
    types: Mapping[str, SqlType] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    """Where it goes on with the state of a query that it has replaced: the names of stores there,
    by those that its text would give them."""


class QueryStatus(NamedTuple):
    """How it is with a query: its state, and if it has failed, why, and when."""

    state: str
    error: str | None = None
    failed_ms: int = 0


class Catalogue:
    def __init__(self) -> None:
        self.sources: dict[str, DataSource] = {}
        self.types: dict[str, SqlType] = {}
        self.queries: dict[str, QueryInfo] = {}
        self.system: dict[str, str] = {}
        """Properties by ALTER SYSTEM, which hold where a request says nothing."""

    def source(self, name: str, place: Place | None = None) -> DataSource:
        found = self.sources.get(name)
        if found is None:
            near = did_you_mean(name, list(self.sources))
            raise Invalid(f"Could not find STREAM/TABLE '{name}' in the Metastore{near}", place)
        return found

    def query(self, query_id: str, place: Place | None = None) -> QueryInfo:
        found = self.queries.get(query_id)
        if found is None:
            near = did_you_mean(query_id, list(self.queries))
            raise Invalid(f"Unknown queryId: {query_id}{near}", place)
        return found

    def readers(self, name: str) -> list[str]:
        return sorted(query.id for query in self.queries.values() if name in query.sources)

    def writers(self, name: str) -> list[str]:
        return sorted(query.id for query in self.queries.values() if query.sink == name)

    def check_droppable(self, source: DataSource, place: Place) -> list[str]:
        """Returns the queries that end when a source is dropped. Raises if others use it."""
        readers = self.readers(source.name)
        writers = self.writers(source.name)
        ending = [writer for writer in writers if self.queries[writer].creates_sink]
        others = [writer for writer in writers if writer not in ending]
        if readers or others:
            raise Invalid(
                f"Cannot drop {source.name}. The following queries read from this source:"
                f" [{', '.join(readers)}]. The following queries write into this source:"
                f" [{', '.join(others)}]. You need to terminate them before dropping"
                f" {source.name}.", place,
            )  # fmt: skip
        return ending
