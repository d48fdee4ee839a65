"""A request of a connection that waits for its answer."""

import asyncio
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import decode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.schema import Response
from odradek.protocol.types import Buffer

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class PendingRequest:
    __slots__ = ("deadline_s", "future", "response_class", "sent_s", "version")

    def __init__(
        self,
        future: "asyncio.Future[Response]",
        response_class: type[Response],
        version: int,
        sent_s: float,
        deadline_s: float,
    ) -> None:
        self.future = future
        self.response_class = response_class
        self.version = version
        self.sent_s = sent_s
        self.deadline_s = deadline_s

    def decode(self, frame: Buffer) -> Response:
        api_key, version = self.response_class.api_key, self.version
        if api_key == ApiVersionsRequest.api_key and frame[4:6] == _UNSUPPORTED_VERSION:
            # A broker that does not know the version of this very question answers in version 0.
            version = 0
        return decode_response(frame, api_key, version)[1]
