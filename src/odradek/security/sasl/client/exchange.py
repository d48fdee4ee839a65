"""What every SASL mechanism of a client has: the messages of one log-in, without any I/O.

A connection sends `first_message()`, gives each answer of the broker to `reply()` and sends what
that returns, until `is_complete`. The bytes travel in SaslAuthenticate requests. A mechanism raises
`SaslFailed` for an answer that an honest broker would not give; the connection is closed then, and
nothing that the broker said before is trusted. No message and no `repr` shows a secret.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

MAX_CHALLENGE_BYTES: Final = 512 * 1024
"""The longest answer that a mechanism reads; a broker's longest are a few hundred bytes."""


class SaslFailed(Exception):
    """The exchange cannot go on: the broker sent what the mechanism does not allow, or proved that
    it does not know our credentials."""


class ClientExchange(ABC):
    """One log-in; a log-in again on the same connection is another object."""

    mechanism: ClassVar[str]
    is_complete: bool = False
    """True when the client has nothing more to send or to check."""

    @abstractmethod
    def first_message(self) -> bytes:
        """Returns what is sent first."""

    @abstractmethod
    def reply(self, challenge: bytes) -> bytes | None:
        """Returns what is sent after an answer of the broker; None if nothing is.

        It may compute for many milliseconds (SCRAM), so callers run it in a worker thread.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mechanism})"
