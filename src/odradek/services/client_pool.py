"""Kafka clients for each caller of a service, in a bounded number.

    async with pool.clients(caller) as clients:
        await clients.admin.create_topic("clicks")

1. An entry belongs to one caller: one kind of log-in, one name, one secret. It is found by a keyed
   hash of them, so no table has passwords as keys, and a request with another password never gets
   the clients of the first.
2. The brokers check a secret when the entry is made, and again every `RECHECK_S`, by a connection
   of its own: connections that are open would outlive a password that was changed, a token that has
   expired or a user that was removed. If they refuse it, the entry and its clients are dropped.
3. An entry that nobody uses is closed after `IDLE_S`, and with it goes the last copy of its secret.
   If there are too many callers, the one that was idle longest goes first; if none is idle, the
   request is refused with 503.

The invariant, which `check` verifies: an entry is leased as often as it says, and there are no more
than `max_callers` entries.
"""

import asyncio
import hmac
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from odradek.client.admin.admin import Admin
from odradek.client.errors import AuthenticationFailed, SettingsError
from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.client.settings.shared import AdminSettings, ClientSettings
from odradek.protocol.errors import AuthenticationError
from odradek.services.identity import Caller, Kind
from odradek.services.tokens import TokenIssuer, token_log_in
from odradek.web.problems import Problem
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.consumer.consumer import Consumer
    from odradek.client.producer.producer import Producer

MAX_CALLERS: Final = 500
IDLE_S: Final = 300.0
RECHECK_S: Final = 30.0
_SWEEP_S: Final = 5.0
_MAX_IDLE_READERS: Final = 8
_TOKEN_KNOWN_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.1
_MAX_LOG_INS: Final = 32
"""How many log-ins are tried at once: guessing passwords must not crowd out other requests."""

Properties = Mapping[str, object]
CLIENT_KINDS: Final[Mapping[str, type[ClientSettings]]] = {
    "admin": AdminSettings,
    "consumer": ConsumerSettings,
    "producer": ProducerSettings,
}

# Whoever asks by HTTP waits for the answer, so clients give up sooner than programs would.
_DEFAULTS: Final[Properties] = {
    "default.api.timeout.ms": 15_000,
    "request.timeout.ms": 10_000,
}
# Many requests of one record each come at once: none of them waits for others to fill a batch.
_OF_PRODUCERS: Final[Properties] = {
    "linger.ms": 0,
    "max.block.ms": 5000,
    "delivery.timeout.ms": 30_000,
}


class Closable(Protocol):
    def close(self) -> None: ...


class CallerClients:
    """The clients of one caller, each made at its first use. `beside` is what a service itself
    keeps for the caller, such as a client of the schema registry; it is closed with them."""

    def __init__(
        self, caller: Caller, properties: Properties, kinds: Mapping[str, Properties]
    ) -> None:
        self.caller = caller
        self.beside: dict[str, Closable] = {}
        self._properties = properties
        self._kinds = kinds
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._readers: deque[Consumer] = deque()
        self._is_closed = False
        # Ends the log-in when the clients are closed; only log-ins by a token need that.
        self.end_log_in: Callable[[], Awaitable[None]] | None = None

    def log_in_with(self, properties: Properties) -> None:
        """Adds a log-in that is known only later; before the first client is made."""
        self._properties = {**self._properties, **properties}

    def properties(self, kind: str) -> dict[str, object]:
        """Returns the properties of a `consumer`, a `producer` or an `admin` of this caller. They
        have its secret: they go to a client and nowhere else."""
        known = CLIENT_KINDS[kind].declared()
        # What is written for all clients is for those that have such a setting.
        shared = {name: value for name, value in self._properties.items() if name in known}
        return {**shared, **self._kinds.get(kind, {})}

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self.properties("admin"))
        return self._admin

    @property
    def producer(self) -> "Producer":
        if self._producer is None:
            from odradek.client.producer.producer import Producer  # noqa: PLC0415 - when used

            self._producer = Producer(self.properties("producer"))
        return self._producer

    @asynccontextmanager
    async def reader(self) -> AsyncIterator["Consumer"]:
        """Lends a consumer without a group, to which nothing is assigned."""
        from odradek.client.consumer.consumer import Consumer  # noqa: PLC0415 - when used

        if self._readers:
            reader = self._readers.pop()
        else:
            given = {**self.properties("consumer"), "auto.offset.reset": "none"}
            given.pop("group.id", None)
            reader = Consumer(given)
        is_sound = False
        try:
            yield reader
            reader.unassign()
            is_sound = True
        finally:
            if is_sound and not self._is_closed and len(self._readers) < _MAX_IDLE_READERS:
                self._readers.append(reader)
            else:
                await reader.close(0)

    async def log_in(self) -> None:
        """Connects to a broker, which checks the log-in; raises what it says."""
        await self.admin.cluster.any_connection()

    async def check_again(self) -> None:
        """Logs in by a connection of its own; raises if the log-in is no longer accepted."""
        async with Admin(self.properties("admin")) as probe:
            await probe.cluster.any_connection()

    async def close(self) -> None:
        self._is_closed = True
        for client in (*self._readers, self._producer, self._admin):
            if client is not None:
                await client.close()
        for one in self.beside.values():
            one.close()
        self.beside.clear()
        self._readers.clear()
        end_log_in, self.end_log_in = self.end_log_in, None
        if end_log_in is not None:
            await end_log_in()


class _Entry:
    """The clients of a caller, who uses them now, and when the brokers last accepted its log-in."""

    def __init__(self, clients: CallerClients, now_s: float) -> None:
        self.clients = clients
        self.leases = 0
        self.used_s = now_s
        self.checked_s: float | None = None
        # When a log-in by a token is to be replaced; the token is good for a while longer.
        self.replaced_s: float | None = None
        self.is_dropped = False
        self.checking: asyncio.Task[bool] | None = None


class ClientPool:
    """The clients of all callers of a service. `run` must run beside it."""

    def __init__(
        self,
        properties: Properties,
        *,
        kinds: Mapping[str, Properties] | None = None,
        world: World | None = None,
        max_callers: int = MAX_CALLERS,
        idle_s: float = IDLE_S,
        recheck_s: float = RECHECK_S,
        tokens: TokenIssuer | None = None,
    ) -> None:
        """`properties` are those of all clients, without a log-in; `kinds` has more for each kind
        of client: `consumer`, `producer`, `admin`. `tokens` lets callers log in by certificate."""
        self._tokens = tokens
        self._properties = {**_DEFAULTS, **properties}
        given = kinds or {}
        self._kinds = {**given, "producer": {**_OF_PRODUCERS, **given.get("producer", {})}}
        self._max_callers = max_callers
        self._idle_s = idle_s
        self._recheck_s = recheck_s
        self._key = (world or World()).randomness.bytes(32)
        self._entries: dict[bytes, _Entry] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._log_ins = asyncio.Semaphore(_MAX_LOG_INS)
        protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
        self.uses_sasl = protocol.startswith("SASL")
        self._mechanism = str(properties.get("sasl.mechanism", "PLAIN")).upper()

    def __len__(self) -> int:
        return len(self._entries)

    def accepts(self, caller: Caller) -> bool:
        """Returns whether the brokers have a log-in of this kind at all."""
        if not self.uses_sasl:
            return True
        if caller.kind in (Kind.TOKEN, Kind.DELEGATION_TOKEN):
            return True
        if caller.kind is Kind.CERTIFICATE:
            return self._tokens is not None and self._tokens.user(caller.name) is not None
        return caller.kind is Kind.PASSWORD and self._mechanism != "OAUTHBEARER"

    def user_of(self, caller: Caller) -> str:
        """Returns the name by which the brokers know a caller that is let in."""
        if caller.kind is Kind.CERTIFICATE and self._tokens is not None:
            return self._tokens.user(caller.name) or caller.name
        return caller.name

    async def is_let_in(self, caller: Caller) -> bool:
        """Returns whether the brokers accept the log-in of a caller, as they did recently or do
        now. Raises if no broker can be reached."""
        async with self._lease(caller) as entry:
            return await self._is_accepted(entry)

    @asynccontextmanager
    async def clients(self, caller: Caller) -> AsyncIterator[CallerClients]:
        """Lends the clients of a caller whom the brokers let in; others get 401."""
        async with self._lease(caller) as entry:
            if not await self._is_accepted(entry):
                raise Problem(401, "the brokers refused the log-in", code=40101)
            yield entry.clients

    @asynccontextmanager
    async def _lease(self, caller: Caller) -> AsyncIterator[_Entry]:
        """Keeps an entry from being closed while it is used."""
        entry = self._entry(caller)
        entry.leases += 1
        try:
            yield entry
        finally:
            entry.leases -= 1
            entry.used_s = _now_s()
            if entry.is_dropped and not entry.leases:
                await entry.clients.close()

    async def run(self) -> None:
        """Closes what nobody uses, until it is cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Closes the entries that were idle for too long."""
        now_s = _now_s()
        for key, entry in list(self._entries.items()):
            if not entry.leases and now_s - entry.used_s >= self._idle_s:
                await self._drop(key, entry)
        self.check()

    async def close(self) -> None:
        entries = list(self._entries.values())
        self._entries.clear()
        for entry in entries:
            await entry.clients.close()
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._tokens is not None:
            await self._tokens.close()
        # Sockets are closed in the next round of the loop.
        await asyncio.sleep(0)

    def check(self) -> None:
        assert len(self._entries) <= self._max_callers
        assert all(entry.leases >= 0 for entry in self._entries.values())

    # Entries

    def _entry(self, caller: Caller) -> _Entry:
        if not self.uses_sasl:
            caller = Caller(Kind.ANONYMOUS, "")
        text = "\x00".join((caller.kind.value, caller.name, caller.secret))
        key = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")
        entry = self._entries.get(key)
        if entry is not None and entry.replaced_s is not None and _now_s() >= entry.replaced_s:
            self._retire(key, entry)
            entry = None
        if entry is None:
            self._make_room()
            clients = CallerClients(caller, self._log_in_of(caller), self._kinds)
            entry = self._entries[key] = _Entry(clients, _now_s())
        return entry

    def _log_in_of(self, caller: Caller) -> Properties:
        if caller.kind is Kind.PASSWORD:
            log_in: dict[str, object] = {
                "sasl.username": caller.name,
                "sasl.password": caller.secret,
            }
        elif caller.kind is Kind.TOKEN:
            log_in = {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": _given(caller.secret),
            }
        elif caller.kind is Kind.DELEGATION_TOKEN:
            log_in = token_log_in(caller.name, caller.secret, self._mechanism)
        else:
            log_in = {}
        return {**self._properties, **log_in}

    def _make_room(self) -> None:
        if len(self._entries) < self._max_callers:
            return
        idle = [(entry.used_s, key) for key, entry in self._entries.items() if not entry.leases]
        if not idle:
            raise Problem(503, "too many different callers at once; try again", code=50301)
        self._close_soon(self._entries.pop(min(idle)[1]))

    def _retire(self, key: bytes, entry: _Entry) -> None:
        """Makes room for an entry with a new token. Requests, streams and consumer instances that
        use the old token go on, until it ends by itself."""
        del self._entries[key]
        entry.is_dropped = True
        entry.clients.end_log_in = None
        if not entry.leases:
            self._close_soon(entry)

    def _close_soon(self, entry: _Entry) -> None:
        closing = asyncio.ensure_future(entry.clients.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _drop(self, key: bytes, entry: _Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]
        entry.is_dropped = True
        if not entry.leases:
            await entry.clients.close()

    # Log-ins

    async def _is_accepted(self, entry: _Entry) -> bool:
        if not self.uses_sasl:
            return True
        now_s = _now_s()
        if entry.checked_s is not None and now_s - entry.checked_s < self._recheck_s:
            return True
        # All requests that come meanwhile wait for one log-in.
        if entry.checking is None:
            entry.checking = asyncio.create_task(self._check(entry))
        return await asyncio.shield(entry.checking)

    async def _check(self, entry: _Entry) -> bool:
        try:
            async with self._log_ins:
                if entry.checked_s is None:
                    await self._first_log_in(entry)
                else:
                    await entry.clients.check_again()
        except (AuthenticationFailed, AuthenticationError, SettingsError):
            # A mechanism refuses some names and passwords before they are sent (SettingsError).
            for key, known in list(self._entries.items()):
                if known is entry:
                    await self._drop(key, entry)
            return False
        else:
            entry.checked_s = _now_s()
            return True
        finally:
            entry.checking = None

    async def _first_log_in(self, entry: _Entry) -> None:
        await self._get_token(entry)
        # Brokers hear of a new token one after the other.
        patient_until_s = _now_s() + _TOKEN_KNOWN_S if entry.replaced_s is not None else 0.0
        while True:
            try:
                if entry.replaced_s is not None:
                    await entry.clients.check_again()
                return await entry.clients.log_in()
            except (AuthenticationFailed, AuthenticationError):
                if _now_s() >= patient_until_s:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _get_token(self, entry: _Entry) -> None:
        """Gets what a caller with a certificate logs in with."""
        tokens, clients = self._tokens, entry.clients
        is_new = entry.replaced_s is None
        if tokens is None or clients.caller.kind is not Kind.CERTIFICATE or not is_new:
            return
        given = await tokens.log_in(clients.caller.name)
        clients.log_in_with(given.properties)
        clients.end_log_in = partial(tokens.end, given.token)
        entry.replaced_s = _now_s() + given.lifetime_s / 2


def _given(token: str) -> Callable[[], Awaitable[str]]:
    """Returns a source of one token; a new token is a new caller."""

    async def source() -> str:
        return token

    return source


def _now_s() -> float:
    return asyncio.get_running_loop().time()
