"""The listeners of a broker that are not PLAINTEXT: their keys, their mechanisms, and who is in.

`broker.network.server` asks `protect` for each new connection on such a listener. Keys and
mechanisms that change while the broker runs count for connections that come later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.authentication.sasl_gate import SaslGate
from odradek.broker.network.connection import Connection
from odradek.broker.network.handshake_turns import HandshakeTurns
from odradek.broker.network.tls import Refused, TlsLayer
from odradek.broker.network.unauthenticated import Unauthenticated
from odradek.config import BrokerSettings
from odradek.config.listener_settings import ListenerSettings
from odradek.config.live import LiveSettings
from odradek.config.setting import InvalidSetting
from odradek.security.principals import ANONYMOUS, USER, Principal
from odradek.security.sasl.server.exchange import Login, Mechanism
from odradek.security.scram import ScramMechanism
from odradek.security.tls.distinguished_names import distinguished_name
from odradek.security.tls.principal_mapping import NoRuleMatches, PrincipalMapping
from odradek.wording import shortened
from odradek.world import World

if TYPE_CHECKING:
    import ssl

    from odradek.broker.audit.log import AuditLog
    from odradek.broker.authentication.listener_keys import ListenerKeys
    from odradek.broker.authentication.scram_accounts import ScramAccounts
    from odradek.broker.services import Services
    from odradek.security.sasl.server.scram import Account, UnknownUser

logger = logging.getLogger("odradek.authentication")

TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class Counters:
    """Since the start: log-ins that succeeded and failed, those again on the same connection, and
    connections that were closed because their session had lapsed."""

    __slots__ = ("again", "expired", "failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = self.again = self.expired = 0


class SecuredListener:
    """One listener. `keys` is None without TLS, `mechanisms` is empty without SASL."""

    def __init__(
        self,
        name: str,
        settings: BrokerSettings,
        *,
        keys: "ListenerKeys | None",
        mechanisms: Mapping[str, Mechanism],
        unauthenticated: Unauthenticated,
        frame_bytes: int,
        world: World,
    ) -> None:
        self.name = name
        self.keys = keys
        self.mechanisms = mechanisms
        self.counters = Counters()
        # None unless there is an audit log.
        self.audit: AuditLog | None = None
        self._unauthenticated = unauthenticated
        self._frame_bytes = frame_bytes
        self._clock = world.clock
        self._turns = HandshakeTurns()
        self.put_in_force(settings)

    def put_in_force(self, settings: BrokerSettings) -> None:
        """Takes the values that count from now on. Raises `InvalidSetting`."""
        self.own = own = settings.listener(self.name)
        self._mapping = PrincipalMapping(own.ssl_principal_mapping_rules, own.prefix)
        self.failure_delay_s = settings.connection_failed_authentication_delay_ms / 1000
        self._max_receive_bytes = own.sasl_server_max_receive_size
        self._max_session_ms = {
            mechanism: _max_session_ms(own.of_mechanism(mechanism)) for mechanism in self.mechanisms
        }

    def replace_mechanisms(
        self, mechanisms: Mapping[str, Mechanism], settings: BrokerSettings
    ) -> None:
        """Lets clients log in by these from now on. Log-ins under way end as they began."""
        before, self.mechanisms = self.mechanisms, mechanisms
        self.put_in_force(settings)
        for mechanism in before.values():
            mechanism.close()

    # New connections

    def protect(self, connection: Connection) -> asyncio.Protocol:
        """Returns what the event loop gives the bytes of a new connection to."""
        self._unauthenticated.add(connection)
        if self.mechanisms:
            connection.splitter.max_size_bytes = self._max_receive_bytes
            connection.guard_by(SaslGate(connection, self).serve)
        if self.keys is None:
            return connection

        def handshake_done(tls: "ssl.SSLObject") -> None:
            if not self.mechanisms:
                connection.principal = self._principal_of_certificate(tls.getpeercert())
                self._unauthenticated.remove(connection)
                if self.audit is not None:
                    self.audit.authenticated(connection, "SSL", connection.principal)

        return TlsLayer(connection, self.keys.context, handshake_done, self._turns)

    def _principal_of_certificate(self, certificate: Mapping[str, Any] | None) -> Principal:
        """Raises `Refused` if no rule says who that is."""
        if not certificate:
            return ANONYMOUS
        try:
            return Principal(USER, self._mapping.name(distinguished_name(certificate)))
        except NoRuleMatches as error:
            raise Refused(str(error)) from None

    # What `SaslGate` asks and says

    def principal_of(self, login: Login) -> Principal:
        return Principal(USER, login.name).in_groups(login.groups)

    def session_lifetime_ms(self, mechanism: str, login: Login) -> int | None:
        """Returns how long a log-in counts, or None if it does not lapse."""
        limits = []
        # A mechanism may have been switched off during this log-in.
        if (longest_ms := self._max_session_ms.get(mechanism, 0)) > 0:
            limits.append(longest_ms)
        if login.expires_at_ms is not None:
            limits.append(max(0, login.expires_at_ms - self._clock.now_ms()))
        return min(limits, default=None)

    def logged_in(
        self, connection: Connection, mechanism: str, token_id: str, *, is_again: bool
    ) -> None:
        self.counters.succeeded += 1
        self.counters.again += is_again
        self._unauthenticated.remove(connection)
        connection.splitter.max_size_bytes = self._frame_bytes
        if token_id:
            mechanism = f"{mechanism}, delegation token {token_id}"
        logger.debug(
            "%s:%s is %s on %s, by %s",
            connection.address,
            connection.port,
            connection.principal,
            self.name,
            mechanism,
        )
        if self.audit is not None:
            self.audit.authenticated(connection, mechanism, connection.principal)

    def failed(self, connection: Connection, mechanism: str, user: str, reason: str) -> None:
        self.counters.failed += 1
        # Everybody may send half a megabyte here. It must not roll other lines out of the logs.
        user, reason = shortened(user, 500), shortened(reason, 500)
        logger.info(
            "a log-in from %s:%s on %s failed%s%s: %s",
            connection.address,
            connection.port,
            self.name,
            f" by {mechanism}" if mechanism else "",
            f" as {user!r}" if user else "",
            reason,
        )
        if self.audit is not None:
            claimed = Principal(USER, user) if user else None
            self.audit.authenticated(connection, mechanism, claimed, reason=reason)


def _max_session_ms(own: ListenerSettings) -> int:
    return own.connections_max_reauth_ms


class SecuredListeners:
    """All of them, by name."""

    def __init__(self, settings: BrokerSettings, world: World, frame_bytes: int) -> None:
        self._world = world
        self._frame_bytes = frame_bytes
        self._settings = settings
        self._accounts: ScramAccounts | None = None
        self.unauthenticated = Unauthenticated(
            settings.odradek_max_unauthenticated_connections,
            settings.odradek_authentication_timeout_ms / 1000,
        )
        self.by_name: dict[str, SecuredListener] = {}
        self._is_changed = asyncio.Event()

    async def open(self) -> None:
        """Reads the keys and makes the mechanisms. Raises `InvalidSetting`."""
        for listener in self._settings.listeners:
            protocol = self._settings.security_protocol(listener.name)
            if protocol != "PLAINTEXT":
                self.by_name[listener.name] = await self._make(listener.name, protocol)

    async def _make(self, name: str, protocol: str) -> SecuredListener:
        keys = None
        own = self._settings.listener(name)
        if protocol in TLS_PROTOCOLS:
            from odradek.broker.authentication.listener_keys import (  # noqa: PLC0415 - needs OpenSSL
                ListenerKeys,
            )

            keys = ListenerKeys(name, protocol, self._world)
            await keys.load(own)
        mechanisms: Mapping[str, Mechanism] = {}
        if protocol in SASL_PROTOCOLS:
            mechanisms = self._make_mechanisms(own)
        return SecuredListener(
            name,
            self._settings,
            keys=keys,
            mechanisms=mechanisms,
            unauthenticated=self.unauthenticated,
            frame_bytes=self._frame_bytes,
            world=self._world,
        )

    def _make_mechanisms(self, own: ListenerSettings) -> Mapping[str, Mechanism]:
        from odradek.broker.authentication.mechanisms import (  # noqa: PLC0415 - only with SASL
            make_mechanisms,
        )

        return make_mechanisms(own, self._find_accounts, self._world)

    def use(self, services: "Services") -> None:
        """Says where SCRAM credentials and delegation tokens are stored, and where log-ins are
        written down. Called before clients are accepted."""
        from odradek.broker.authentication.scram_accounts import (  # noqa: PLC0415 - needs OpenSSL
            ScramAccounts,
        )
        from odradek.cluster.cluster_secret import ClusterSecret  # noqa: PLC0415 - as above

        secret = ClusterSecret(services.images.cache, self._world.randomness)
        self._accounts = ScramAccounts(services.configs, services.tokens, secret, self._world)
        for listener in self.by_name.values():
            listener.audit = services.audit

    def _find_accounts(self, mechanism: ScramMechanism) -> "_AccountLookUp":
        return _AccountLookUp(self, mechanism)

    async def find_account(
        self, name: str, mechanism: ScramMechanism, *, is_token: bool
    ) -> "Account | UnknownUser":
        assert self._accounts is not None  # Clients are accepted later.
        return await self._accounts.find(name, mechanism, is_token=is_token)

    # Changes while the broker runs

    async def check(self, settings: BrokerSettings) -> None:
        """Raises `InvalidSetting` if a listener could not use its keys or mechanisms by these
        settings. Nothing is put in force."""
        for name, listener in self.by_name.items():
            own = settings.listener(name)
            if listener.keys is not None:
                await listener.keys.check(own)
            if listener.mechanisms:
                for mechanism in self._make_mechanisms(own).values():
                    mechanism.close()

    async def reload(self, settings: BrokerSettings) -> None:
        """Puts changed keys and mechanisms in force for connections that come later. What cannot
        be used is told to the operator, and the present one stays."""
        for name, listener in self.by_name.items():
            own = settings.listener(name)
            if listener.keys is not None:
                await listener.keys.reload(own)
            if listener.mechanisms and own != listener.own:
                try:
                    listener.replace_mechanisms(self._make_mechanisms(own), settings)
                except InvalidSetting as error:
                    listener.own = own
                    logger.error("new log-ins of listener %s are refused: %s", name, error)

    async def run(self, settings: LiveSettings) -> None:
        """Looks for changed settings and files until cancelled."""
        while True:
            interval_ms = settings.broker.odradek_ssl_reload_interval_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_ms / 1000 if interval_ms else None):
                    await self._is_changed.wait()
            self._is_changed.clear()
            await self.reload(settings.broker)

    def settings_changed(self) -> None:
        """Called when settings of the broker have changed."""
        self._is_changed.set()

    def protect(self, listener: str, connection: Connection) -> asyncio.Protocol:
        """Returns what the event loop gives the bytes of a new connection to."""
        secured = self.by_name.get(listener)
        return connection if secured is None else secured.protect(connection)

    def close(self) -> None:
        self.unauthenticated.close()
        for listener in self.by_name.values():
            for mechanism in listener.mechanisms.values():
                mechanism.close()


class _AccountLookUp:
    """The look-up of SCRAM accounts for one mechanism."""

    def __init__(self, listeners: SecuredListeners, mechanism: ScramMechanism) -> None:
        self._listeners = listeners
        self._mechanism = mechanism

    def __call__(self, name: str, is_token: bool) -> "Awaitable[Account | UnknownUser]":
        return self._listeners.find_account(name, self._mechanism, is_token=is_token)
