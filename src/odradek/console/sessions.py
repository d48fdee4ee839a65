"""Who uses which browser. A session is kept on the server; the browser has a random name of it.

The cookie has no secret of Kafka in it, and nothing of a session is ever on disk. A session holds
the callers by which its user is known to each cluster, a token against forged requests (CSRF), and
messages for the next page. It ends after `lifetime_s` without a request. A log-in gives a session a
new name, so a name that somebody planted before the log-in is worth nothing after it.

Browsers without a log-in get sessions too, for the token and the messages. Their number is limited
apart from that of users who are logged in, so nobody can push these out by asking without a cookie.
"""

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from odradek.console.openid.provider import PendingLogIn, TokenGrant
from odradek.services.identity import NOBODY, Caller
from odradek.world.randomness import Randomness

COOKIE: Final = "odradek-console"
_MAX_SESSIONS: Final = 5000
_NAME_BYTES: Final = 32
_MAX_BEGUN: Final = 5
_BEGUN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class LogIn:
    """Who a user is for one cluster, and the name that pages show. `granted` is what an OpenID
    provider gave for it."""

    caller: Caller
    name: str
    granted: TokenGrant | None = None


NOT_NEEDED: Final = LogIn(NOBODY, "")


@dataclass(frozen=True, slots=True)
class Message:
    """A message for the next page: `good`, `bad` or `plain`."""

    kind: str
    text: str


@dataclass(slots=True)
class Session:
    """One browser. `name` is known to the browser alone; the server finds it by a hash."""

    name: str = field(repr=False)
    csrf: str = field(repr=False)
    used_s: float
    log_ins: dict[str, LogIn] = field(default_factory=dict)
    """By cluster."""
    messages: list[Message] = field(default_factory=list)
    begun: list[PendingLogIn] = field(default_factory=list)
    """Log-ins that the browser is away for, at an OpenID provider; the newest last."""
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Held while a token is replaced: of many requests at once, one asks for the next."""

    def begin(self, begun: PendingLogIn) -> None:
        self.begun = [*self.begun[1 - _MAX_BEGUN :], begun]

    def take_begun(self, state: str) -> PendingLogIn | None:
        """Returns the log-in that an answer of the provider belongs to; it is answered once, and
        within ten minutes."""
        now_s = asyncio.get_running_loop().time()
        for begun in self.begun:
            if hmac.compare_digest(begun.state.encode(), state.encode()):
                self.begun.remove(begun)
                return begun if now_s - begun.at_s <= _BEGUN_S else None
        return None

    def say(self, kind: str, text: str) -> None:
        self.messages.append(Message(kind, text))

    def take_messages(self) -> list[Message]:
        messages, self.messages = self.messages, []
        return messages

    def is_own(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())


class Sessions:
    """All sessions of a console."""

    def __init__(self, lifetime_s: float, randomness: Randomness | None = None) -> None:
        self._lifetime_s = lifetime_s
        self._randomness = randomness or Randomness()
        self._users: OrderedDict[bytes, Session] = OrderedDict()
        self._visitors: OrderedDict[bytes, Session] = OrderedDict()

    def find(self, name: str | None) -> Session | None:
        """Returns the session of a cookie, if it has not ended."""
        if not name:
            return None
        key = _key(name)
        table = self._users if key in self._users else self._visitors
        session = table.get(key)
        now_s = asyncio.get_running_loop().time()
        if session is None:
            return None
        if now_s - session.used_s > self._lifetime_s:
            del table[key]
            return None
        session.used_s = now_s
        table.move_to_end(key)
        return session

    def new(self) -> Session:
        """Returns a new session without a log-in."""
        session = Session(self._random(), self._random(), asyncio.get_running_loop().time())
        self._keep(self._visitors, session)
        return session

    def log_in(self, session: Session, cluster: str, log_in: LogIn) -> Session:
        """Returns the session under a new name, with the log-in."""
        self.end(session)
        known = {**session.log_ins, cluster: log_in}
        renewed = Session(self._random(), self._random(), session.used_s, known, session.messages)
        self._keep(self._users, renewed)
        return renewed

    def log_out(self, session: Session, cluster: str) -> LogIn | None:
        """Forgets the log-in of one cluster; the session ends with the last one."""
        log_in = session.log_ins.pop(cluster, None)
        if not session.log_ins:
            self.end(session)
        return log_in

    def end(self, session: Session) -> None:
        key = _key(session.name)
        self._users.pop(key, None)
        self._visitors.pop(key, None)

    def is_used(self, cluster: str, caller: Caller) -> bool:
        """Returns whether any session has this log-in."""
        return any(
            log_in is not None and log_in.caller == caller
            for session in self._users.values()
            for log_in in (session.log_ins.get(cluster),)
        )

    def _keep(self, table: OrderedDict[bytes, Session], session: Session) -> None:
        while len(table) >= _MAX_SESSIONS:
            table.popitem(last=False)
        table[_key(session.name)] = session

    def _random(self) -> str:
        return self._randomness.bytes(_NAME_BYTES).hex()


def _key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
