"""A persistent query for the process that runs it: the statement, and what it was compiled with.

A plan consists of functions, which no other process can be given. So it gets the text and compiles
it again, with the streams, tables and types that there were when the query was made.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.sql.engine import persistent
from odradek.sql.engine.catalogue import Catalogue, QueryInfo
from odradek.sql.engine.definitions import Defaults
from odradek.sql.functions.loading import DIRECTORIES, load_once
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.nodes import Plan, Sink
from odradek.streams.plan.types import SqlType
from odradek.streams.running.executor import InputRecord

_log: Final = logging.getLogger("odradek.sql.processing")


def note(what: str, error: Exception) -> None:
    """Logs an expression that failed for a row."""
    _log.warning("%s is null: %s", what, error)


def skip_record(record: InputRecord, error: Exception) -> None:
    """Logs a record that cannot be read."""
    _log.warning(
        "the record at offset %d of %s-%d is skipped: %s",
        record.offset, record.topic, record.partition, error,
    )  # fmt: skip


def omit_result(sink: Sink, error: Exception) -> None:
    """Logs a result that cannot be written."""
    _log.warning("a result for %s is left out: %s", sink.topic, error)


@dataclass(frozen=True)
class QueryText:
    text: str
    sources: Mapping[str, DataSource]
    types: Mapping[str, SqlType]
    defaults: Defaults
    reset: str | None
    functions: tuple[str, ...] = ()
    """The directories of the operator's functions."""
    stores: Mapping[str, str] = field(default_factory=dict)
    """As `QueryInfo` has them."""

    @staticmethod
    def of(query: QueryInfo, defaults: Defaults, reset: str | None) -> "QueryText":
        return QueryText(
            query.text, dict(query.known), dict(query.types), defaults, reset, tuple(DIRECTORIES),
            dict(query.stores),
        )  # fmt: skip

    def prepared(self) -> persistent.Prepared:
        """Compiles the query. Its sink may be among the sources already, as it was made then."""
        load_once(self.functions)
        catalogue = Catalogue()
        catalogue.sources.update(self.sources)
        catalogue.types.update(self.types)
        statement = parse(self.text, catalogue.types)
        assert isinstance(statement, s.InsertInto | s.CreateAsSelect)
        return persistent.prepare(
            statement, catalogue, self.defaults, reset=self.reset, note=note, stores=self.stores
        )

    def __call__(self) -> Plan:
        return self.prepared().plan
