"""The headers of a consumed record: a list that cannot be changed.

Most records have no headers, and those share one empty list. A list for each record would double
the objects that Python's garbage collector counts, so that it ran in every poll of 500 records: a
quarter of the consumer's time (decision 25). Headers of records that have some cannot be changed
either, so that a program does not depend on whether a record has any.
"""

from typing import Any, Final, NoReturn

from odradek.protocol.record_walkers import parse_headers


class RecordHeaders(list[tuple[str, bytes | None]]):
    """Pairs of name and value. A copy (`list(record.headers)`, or a pickled one) can be changed."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (tuple(self),)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "the headers of a consumed record cannot be changed: write [*record.headers, (name, value)]"
    )


for _method in (
    "__delitem__",
    "__iadd__",
    "__imul__",
    "__setitem__",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
):
    setattr(RecordHeaders, _method, _refuse)

NO_HEADERS: Final = RecordHeaders()


def parse_record_headers(data: bytes, position: int, end: int) -> tuple[RecordHeaders, int]:
    """Returns the headers of a record that ends at `end`, and the position after them."""
    headers, position = parse_headers(data, position, end)
    return RecordHeaders(headers), position
