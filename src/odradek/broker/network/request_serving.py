"""What a connection and the code that serves its requests agree on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from odradek.broker.network.reply_writer import Parts
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.types import Buffer

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection

# How frames of these requests begin.
PRODUCE: Final = ProduceRequest.api_key.to_bytes(2, "big")
LEAVE_GROUP: Final = LeaveGroupRequest.api_key.to_bytes(2, "big")
REBALANCING: Final = tuple(
    request.api_key.to_bytes(2, "big") for request in (JoinGroupRequest, SyncGroupRequest)
)

Encode = Callable[[object], Parts | Awaitable[Parts | None] | None]
"""Encodes a reply: at once, or in steps if it is large."""


class Pending(NamedTuple):
    """A reply that is awaited, and how it is encoded then."""

    reply: Awaitable[object]
    encode: Encode
    # Whether the next Produce request may be served while this one waits: it has appended.
    is_pipelined: bool


class InterruptibleWait(Protocol):
    """The wait of a request that is served, for instance of a fetch for records."""

    def interrupt(self) -> None:
        """Answers soon, with what there is."""
        ...

    def next_request_arrived(self) -> None:
        """Another request of the connection waits behind this one."""
        ...


class _NoWait:
    """In place of an `InterruptibleWait` while no request waits that can be interrupted."""

    def interrupt(self) -> None: ...

    def next_request_arrived(self) -> None: ...


NO_WAIT: Final = _NoWait()


class Splitter(Protocol):
    """Splits the bytes that arrive into frames."""

    max_size_bytes: int

    @property
    def unfinished_bytes(self) -> int: ...
    @property
    def missing_bytes(self) -> int: ...
    def feed(self, chunk: bytes) -> list[Buffer]: ...
    def clear(self) -> None: ...


class WrappedSplitter:
    """A splitter around another one, for subclasses that note when frames arrive."""

    __slots__ = ("inner",)

    def __init__(self, inner: Splitter) -> None:
        self.inner = inner

    @property
    def max_size_bytes(self) -> int:
        return self.inner.max_size_bytes

    @max_size_bytes.setter
    def max_size_bytes(self, size: int) -> None:
        self.inner.max_size_bytes = size

    @property
    def unfinished_bytes(self) -> int:
        return self.inner.unfinished_bytes

    @property
    def missing_bytes(self) -> int:
        return self.inner.missing_bytes

    def feed(self, chunk: bytes) -> list[Buffer]:
        return self.inner.feed(chunk)

    def clear(self) -> None:
        self.inner.clear()


Serve = Callable[["Connection", Buffer], Parts | Pending | None]
"""Serves a request frame. Returns the reply, or a pending one, or None if the client wants no reply
(acks=0)."""


def encoded_already(reply: object) -> Parts | None:
    return cast("Parts | None", reply)
