"""The one exception by which a server says no: an error code of the protocol and a line."""

from odradek.protocol.errors import ErrorCode


class Refused(Exception):
    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = message or code.message
        super().__init__(self.message)
