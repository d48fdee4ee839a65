"""Functions of nulls and of keys."""

from typing import Any, Final

from odradek.sql.functions.declaring import Subject

SUBJECT: Final = Subject("Nulls and keys")
scalar = SUBJECT.scalar


@scalar("AS_VALUE", "T -> T", nulls=True)
def as_value(value: Any) -> Any:
    """Copies a key column into the row's value."""
    return value


@scalar("COALESCE", "T, T... -> T", nulls=True)
def coalesce(*values: Any) -> Any:
    """Returns the first value that is not null."""
    return next((value for value in values if value is not None), None)


@scalar("IFNULL", "T, T -> T", nulls=True)
def ifnull(value: Any, other: Any) -> Any:
    """Returns the first value, or the second if the first is null."""
    return other if value is None else value


@scalar("NULLIF", "T, T -> T", nulls=True)
def nullif(value: Any, other: Any) -> Any:
    """Returns null if both values are equal, else the first."""
    return None if value == other else value
