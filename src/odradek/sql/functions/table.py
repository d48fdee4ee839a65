"""The table of all functions."""

from typing import Final

from odradek.sql.functions import (
    bytes_,
    collections_,
    deviations,
    json_,
    nulls,
    numbers,
    patterns,
    times,
    urls,
)
from odradek.sql.functions.declaring import Scalar, Subject
from odradek.sql.functions.tabular import TABULAR

AGGREGATES: Final = deviations.AGGREGATES  # with those that are declared there
SUBJECTS: Final[tuple[Subject, ...]] = (
    numbers.SUBJECT, patterns.SUBJECT, bytes_.SUBJECT, collections_.SUBJECT, collections_.INVOKING,
    json_.SUBJECT, times.SUBJECT, urls.SUBJECT, nulls.SUBJECT,
)  # fmt: skip
SCALARS: Final[dict[str, Scalar]] = {
    name: function for subject in SUBJECTS for name, function in subject.functions.items()
}
TYPED_BY_VALUE: Final = {"TO_JSON_STRING": "Returns a value of any type as JSON in a text."}
"""Functions whose implementation depends on the type of the argument, which the compiler gives."""
CONSTRUCTORS: Final = {
    "ARRAY": "ARRAY[1, 2]: an array of these values.",
    "MAP": "MAP('a' := 1): a map of these entries.",
    "STRUCT": "STRUCT(a := 1): a struct of these fields.",
    "CAST": "CAST(value AS INT): a value as another type.",
    "CASE": "CASE WHEN condition THEN value ELSE other END.",
}
"""What looks like a function and is a part of the language."""

NAMES: Final = sorted({*SCALARS, *AGGREGATES, *TABULAR, *TYPED_BY_VALUE})
"""The names of all functions; `loading` adds those of the operator."""
