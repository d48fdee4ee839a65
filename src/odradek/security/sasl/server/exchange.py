"""What a connection and a SASL mechanism of the broker agree on. No module here does any I/O.

A connection has one `ServerExchange` for each log-in. It calls `respond` with every token of the
client, sends the reply of the step, and stops when a step has a `Login` or `LoginFailed` is raised.

A step that must ask somebody else (a password that a directory checks, a key that must be fetched)
is awaited; meanwhile other connections are served.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

INVALID_CREDENTIALS: Final = ""
"""As the message of `LoginFailed`: Kafka's sentence that names the mechanism, and nothing else."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who has logged in. `expires_at_ms` is when the credential ends, by the wall clock. `groups`
    are what the checker of the credential knows the user to be a member of. `token_id` is that of
    the delegation token by which it has logged in, or empty."""

    name: str
    expires_at_ms: int | None = None
    groups: tuple[str, ...] = ()
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    token_id: str = ""


class Step(NamedTuple):
    """The answer to one token. The exchange is complete when there is a login."""

    reply: bytes
    login: Login | None = None


class LoginFailed(Exception):
    """The client is not who it says. `told` is the message for the client, which must not say what
    was wrong beyond what Kafka says; the exception's own text is for the log of the broker, and has
    no secret."""

    def __init__(self, reason: str, told: str = INVALID_CREDENTIALS, user: str = "") -> None:
        super().__init__(reason)
        self.told = told
        self.user = user


class ServerExchange(Protocol):
    """One log-in by one mechanism."""

    def respond(self, token: bytes) -> Step | Awaitable[Step]:
        """Returns the answer to a token of the client. Raises `LoginFailed`."""
        ...


class Mechanism(Protocol):
    """A mechanism of a listener: it makes an exchange for each log-in."""

    @property
    def name(self) -> str: ...

    def begin(self) -> ServerExchange: ...

    def close(self) -> None:
        """Ends what runs in the background. Called when the broker stops."""
        ...
