"""CREATE OR REPLACE: whether a stream or table may become another one.

Queries that read it go on, and rows that were written stay: columns can be added at the end, and
nothing else can change.
"""

from odradek.sql.errors import Invalid, Place
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.types import Column


def check_upgrade(old: DataSource, new: DataSource, place: Place) -> None:
    """Raises `Invalid` if a definition cannot take the place of another one."""
    issues = []
    properties = {
        "type": (old.kind, new.kind), "topic": (old.topic, new.topic),
        "key format": (old.key_format.name, new.key_format.name),
        "value format": (old.value_format.name, new.value_format.name),
        "timestampColumn": (old.timestamp, new.timestamp),
    }  # fmt: skip
    for name, (before, after) in properties.items():
        if before != after:
            issues.append(f"has {name} = {before} which cannot be upgraded to {name} = {after}")
    keys = _changed(old.schema.key, new.schema.key)
    if keys or len(old.schema.key) != len(new.schema.key):
        issues.append(
            "has another key. Key columns must be identical. The following key columns are"
            f" changed, missing or reordered: [{keys}]"
        )
    values = _changed(old.schema.value, new.schema.value)
    if values:
        issues.append(
            "has other columns. The following columns are changed, missing or reordered:"
            f" [{values}]"
        )
    if issues:
        raise Invalid(
            f"Cannot upgrade data source: DataSource '`{old.name}`' {' AND '.join(issues)}", place
        )


def _changed(old: tuple[Column, ...], new: tuple[Column, ...]) -> str:
    return ", ".join(
        str(column)
        for number, column in enumerate(old)
        if number >= len(new) or new[number] != column
    )
