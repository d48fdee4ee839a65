"""The socket's side of a connection: cuts the stream of bytes into frames, and knows whether more
may be written. `connection` has the rest."""

import asyncio
import ssl
from typing import TYPE_CHECKING, cast

from odradek.client.errors import BadResponse, ClientError, ConnectionClosed, NotABroker
from odradek.client.other_protocols import (
    MAX_FIRST_RESPONSE_BYTES,
    RECOGNISED_BYTES,
    what_it_speaks,
)
from odradek.protocol.framing import BadFrameSize, FrameSplitter

if TYPE_CHECKING:
    from odradek.client.connection import Connection


class Wire(asyncio.Protocol):
    """The protocol of one socket; made and used by its `Connection`."""

    __slots__ = (
        "_connection",
        "_first",
        "_splitter",
        "closed_at_first_request",
        "is_writable",
        "lost",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        # The first bytes that the peer sent, until it is known to be a broker.
        self._first: bytes | None = b""
        self._splitter = FrameSplitter(MAX_FIRST_RESPONSE_BYTES)
        self.is_writable = True
        self.closed_at_first_request = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._connection.is_open:
            self.transport.abort()

    def trust(self, max_response_bytes: int) -> None:
        """Takes large responses from now on: the peer is a broker."""
        self._first = None
        self._splitter.max_size_bytes = max_response_bytes

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        fault: ClientError | None = None
        if self._first is not None:
            self._first = (self._first + data)[:RECOGNISED_BYTES]
        try:
            frames = self._splitter.feed(data)
        except BadFrameSize as error:
            frames = error.frames
            if self._first is not None:
                fault = NotABroker(f"{connection.address} {what_it_speaks(self._first)}")
            else:
                fault = BadResponse(f"{connection.address} sent no response but {error}")
        for frame in frames:
            connection.frame_received(frame)
        if fault is not None:
            connection.fail(fault)

    @property
    def why_at_once(self) -> str:
        """Returns the question to ask if the broker closes before its first answer."""
        if self.transport.get_extra_info("ssl_object") is None:
            return "is it a Kafka listener of the kind that security.protocol says?"
        return (
            "does it want a certificate of the client that it trusts? ssl.keystore.location names"
            " the client's"
        )

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._connection.wake_waiters()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.fail(self._why_lost(error))
        if not self.lost.done():
            self.lost.set_result(None)

    def _why_lost(self, error: Exception | None) -> ClientError:
        connection = self._connection
        if isinstance(error, ssl.SSLError):
            # With TLS 1.3 a broker judges the client's certificate after the client's handshake.
            from odradek.client.tls_failures import why_tls_failed  # noqa: PLC0415 - only with TLS

            fault = why_tls_failed(error, connection.host, connection.port)
            if fault is not None:
                return fault
        reason = f": {error}" if error is not None else ""
        if connection.has_no_answer_yet:
            self.closed_at_first_request = True
            reason += (
                " at the first request: if the listener asks for a log-in, set"
                " security.protocol=SASL_SSL or SASL_PLAINTEXT"
            )
        return ConnectionClosed(f"{connection.address} closed the connection{reason}")

    def end(self, *, at_once: bool) -> None:
        """Closes the socket; `at_once` drops unwritten bytes, for a peer that may never read."""
        transport = getattr(self, "transport", None)
        if transport is not None:
            if at_once:
                transport.abort()
            else:
                transport.close()
