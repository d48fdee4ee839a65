"""GSSAPI (RFC 4752): the client shows a ticket of Kerberos that only this broker can read.

1. client: a ticket, and a proof that it has the session key    server: its own proof
2. client: an empty message                                    server: which layers it offers: none
3. client: which layer it takes, and an authorization id

There is never a security layer: after the log-in, encryption is the matter of TLS. The
authorization id is ignored, as in Kafka: the principal is that of the ticket, made shorter by
`sasl.kerberos.principal.to.local.rules`.

Each step runs in a worker thread: the library reads the keytab and writes its cache of the messages
that it has seen, by which it recognises a message that is sent twice. No step asks the KDC, so a
KDC that is away or slow delays no log-in of a client that has its ticket. The keytab is opened for
each log-in: a new key in it counts at once.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, Final

from odradek.security.kerberos.library import (
    KerberosFailed,
    accepting_credentials,
    explained,
    load,
)
from odradek.security.kerberos.name_rules import NameRules, NoRuleMatches
from odradek.security.sasl.server.exchange import Login, LoginFailed, Step
from odradek.world.workers import Workers

# The first byte is the set of layers that are offered: 1 is no layer. The other three are how long
# a wrapped message may be: 0 without a layer.
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))


class Gssapi:
    """The mechanism at one listener."""

    name = "GSSAPI"

    def __init__(self, keytab: str, principal: str, rules: NameRules, workers: Workers) -> None:
        """Raises `KerberosFailed` if the keytab does not have the principal's key."""
        accepting_credentials(keytab, principal)
        self._credentials = partial(accepting_credentials, keytab, principal)
        self._rules = rules
        self._workers = workers

    def begin(self) -> "GssapiExchange":
        return GssapiExchange(self._credentials, self._rules, self._workers)

    def close(self) -> None: ...


class _Stage(Enum):
    """What the next message of the client is."""

    TICKET = 1
    EMPTY = 2
    CHOICE = 3


class GssapiExchange:
    def __init__(self, credentials: Callable[[], Any], rules: NameRules, workers: Workers) -> None:
        self._credentials = credentials
        self._rules = rules
        self._workers = workers
        self._stage = _Stage.TICKET
        self._context: Any = None

    def respond(self, token: bytes) -> Awaitable[Step]:
        return self._workers.run_blocking(partial(self._respond_in_thread, token))

    def _respond_in_thread(self, token: bytes) -> Step:
        try:
            if self._stage is _Stage.TICKET:
                return self._take_ticket(token)
            with explained("the log-in by Kerberos"):
                if self._stage is _Stage.EMPTY:
                    return self._offer()
                return self._take_choice(token)
        except KerberosFailed as error:
            raise LoginFailed(str(error)) from None

    def _take_ticket(self, token: bytes) -> Step:
        if self._context is None:
            context = load().SecurityContext(creds=self._credentials(), usage="accept")
            # Otherwise an error would be raised by the next step, not by this one.
            context.__DEFER_STEP_ERRORS__ = False
            self._context = context
        with explained("the ticket is refused"):
            reply = self._context.step(token)
            if self._context.complete:
                self._stage = _Stage.EMPTY
                if not reply:
                    # A client that wants no proof of the broker sends no empty message.
                    return self._offer()
        return Step(reply or b"")

    def _offer(self) -> Step:
        self._stage = _Stage.CHOICE
        return Step(self._context.wrap(_OFFER, encrypt=False).message)

    def _take_choice(self, token: bytes) -> Step:
        principal = str(self._context.initiator_name)
        choice = self._context.unwrap(token).message
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise LoginFailed(
                "the client wants a security layer, which was not offered", "", principal
            )
        try:
            return Step(b"", Login(self._rules.name(principal)))
        except NoRuleMatches as error:
            raise LoginFailed(str(error), user=principal) from None
