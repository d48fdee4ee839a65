"""What is wrong with a statement, and where.

SqlError
├── SyntaxProblem    it is not a statement of the language
├── Invalid          it cannot be carried out: an unknown name, types that do not fit
│   ├── QueryEndpoint          a SELECT or PRINT where only other statements can be answered
│   └── AssertionDoesNotHold   there is no topic or schema as ASSERT says
├── Refused          ksqlDB has it, and we do not, or not yet
└── Forbidden        the brokers do not let the caller do it
"""

from typing import NamedTuple


class Place(NamedTuple):
    """A place in the text of a statement; both numbers begin at 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}:{self.column}"


class SqlError(Exception):
    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message if place is None else f"{place}: {message}")
        self.place = place


class SyntaxProblem(SqlError):
    pass


class Invalid(SqlError):
    pass


class QueryEndpoint(Invalid):
    pass


class AssertionDoesNotHold(Invalid):
    pass


class Refused(SqlError):
    pass


class Forbidden(SqlError):
    pass
