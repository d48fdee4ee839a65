"""Writes the reference of all functions: python -m odradek.sql.functions.reference PATH."""

import sys
from collections.abc import Iterable, Iterator

from odradek.sql.functions.declaring import Signature
from odradek.sql.functions.table import AGGREGATES, CONSTRUCTORS, SUBJECTS, TYPED_BY_VALUE
from odradek.sql.functions.tabular import TABULAR

_HEAD = """\
# Functions of SQL

<!-- Written by python -m odradek.sql.functions.reference; do not edit. -->

Names are ksqlDB's. In a signature, `N` is a number type, `T`, `K`, `V`, `R` and `S` are any type,
equal letters are equal types, and `...` repeats the last parameter. The result is null where an
argument is null, unless the text says otherwise, and where the function fails for a row.
[The guide](../sql.md) explains the language.
"""


def render() -> str:
    return "\n".join([_HEAD, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for subject in SUBJECTS:
        rows = [
            (one.name, (variant.signature for variant in one.variants), one.doc)
            for one in sorted(subject.functions.values(), key=lambda one: one.name)
        ]
        yield from _section(subject.title, rows)
    typed = [(name, (), f"T -> STRING. {doc}") for name, doc in TYPED_BY_VALUE.items()]
    yield from _section("Values as JSON", typed)
    aggregates = []
    for name, function in sorted(AGGREGATES.items()):
        where = "" if _undoes(name) else " Streams only."
        aggregates.append((name, function.signatures, function.doc + where))
    yield from _section("Aggregates", aggregates)
    tabular = [(one.name, one.signatures, one.doc) for one in TABULAR.values()]
    yield from _section("Table functions", tabular)
    yield from _section(
        "Parts of the language", [(name, (), doc) for name, doc in CONSTRUCTORS.items()]
    )


def _undoes(name: str) -> bool:
    """Returns whether an aggregate can be used over a table."""
    from odradek.streams.plan.types import BIGINT  # noqa: PLC0415 - for this alone

    function = AGGREGATES[name]
    constants = [1] if name.startswith("TOPK") else []
    return function.bind([BIGINT, BIGINT], constants).undo is not None


def _section(title: str, rows: Iterable[tuple[str, Iterable[Signature], str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| function | signatures | |"
    yield "|---|---|---|"
    for name, signatures, doc in rows:
        texts = "<br>".join(f"`{signature.text.strip()}`" for signature in signatures)
        yield f"| `{name}` | {texts} | {doc.replace('|', '&#124;')} |"
    yield ""


def main() -> None:
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(render())


if __name__ == "__main__":
    main()
