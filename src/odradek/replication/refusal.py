"""The one exception by which a server says no: an error code of the protocol and a line."""

from typing import Final

from odradek.protocol.errors import ErrorCode

# A message may quote what it was asked, which may be longer than any answer can be.
_LONGEST_MESSAGE: Final = 1_000


class Refused(Exception):
    """`record_errors` names the records of a batch that are at fault, by index, where known."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self.code = code
        self.message = (message or code.message)[:_LONGEST_MESSAGE]
        self.record_errors = record_errors
        super().__init__(self.message)
