"""The exception by which server code answers a request with an error code.

Handlers, partitions and coordinators raise it. The code that builds the response catches it and
puts the error code into the response, and the message if the response has a field for it. Clients
raise `protocol.errors.KafkaError` instead, which they make from the code that they received.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode

# A message may quote the request, which may be longer than a response can be.
_MAX_MESSAGE_LENGTH: Final = 1_000


class ApiError(Exception):
    """A request, or one part of it, fails with `code`; `message` says why to a person.

    `record_errors` names the records of a batch that are at fault, by their index in the batch,
    where they are known.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self.code = code
        self.message = (message or code.message)[:_MAX_MESSAGE_LENGTH]
        self.record_errors = record_errors
        super().__init__(self.message)
