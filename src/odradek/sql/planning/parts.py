"""What the parts of a query's compilation hand to each other."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from odradek.config.spelling import nearest
from odradek.sql.planning.expressions import ROW_ERRORS, Compiled, Evaluate
from odradek.sql.planning.placing import PLACED
from odradek.sql.planning.scope import Scope
from odradek.sql.planning.sources import DataSource, Format, MakeCodec, Names, WindowInfo
from odradek.streams.plan.nodes import Codec, Node
from odradek.streams.plan.types import Column

Note = Callable[[str, Exception], None]
"""Told of an expression that failed for a row: what it is, and why."""


def ignore(what: str, error: Exception) -> None:
    """Notes nothing."""


@dataclass
class Context:
    """What compiling a query needs beside the query."""

    find: Callable[[str], DataSource | None]
    make_codec: MakeCodec
    reset: str | None = None
    """Where reading begins: earliest, latest, or as it is usual for the source."""
    note: Note = ignore
    is_transient: bool = False
    default_key_format: Format = field(default_factory=lambda: Format("KAFKA"))
    key_format: Format | None = None
    """The format of the result's key, if WITH says one."""
    names: Names = field(default_factory=Names)
    sources: Collection[str] = ()
    """The names that `find` knows, for one that is misspelt."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """How many values the arrays of aggregate functions have at most, by name of the function."""

    def missing(self, name: str) -> str:
        """Returns the message that there is no such stream or table."""
        near = nearest(name, self.sources)
        if near is None:
            return f"{name} does not exist. SHOW STREAMS; and SHOW TABLES; list what there is"
        return f"{name} does not exist. Did you mean {near}?"

    def evaluate(self, compiled: Compiled, what: str) -> Evaluate:
        """Returns an expression that is null where it fails, and notes why."""
        evaluate, note = compiled.evaluate, self.note

        def safe(row: Any) -> Any:
            try:
                return evaluate(row)
            except ROW_ERRORS as error:
                note(what, error)
                return None

        return safe


@dataclass
class Flow:
    """A point in the plan: rows that come from `node`, and what is known of them. The values are
    rows of `scope`; the keys are tuples of `key_columns`, or `Windowed` of them."""

    node: Node
    scope: Scope
    is_table: bool
    key_columns: tuple[Column, ...]
    key_places: tuple[int | None, ...]
    """Where in a row each key column is; None for one that is in none, as a synthetic key is."""
    key_format: Format
    window: WindowInfo | None = None
    key_texts: tuple[str, ...] = ()
    """The canonical expressions of the keys, for a SELECT that repeats them."""
    key_codec: Codec | None = None
    viable: tuple[int, ...] = ()
    """The columns of a row that are equal to the key after a join: each may stand for it."""
    placed: Format = PLACED
    """By which format's bytes records are in their partition."""


_NAME_OR_TEXT: Final = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")*)\"")
_PLAIN_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def describe(node: exp.Expr) -> str:
    """Returns an expression as text, for messages, pictures and the processing log."""

    def shown(match: "re.Match[str]") -> str:
        name = match[1]
        if name is None:
            return match[0]
        return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"

    return _NAME_OR_TEXT.sub(shown, node.sql())
