"""Logs in by Kerberos (GSSAPI): tickets from a keytab, or from the ticket cache of somebody else.

With a keytab, tickets are kept in memory, and the library gets new ones before they end: by the key
that the keytab has then. Those of a ticket cache are renewed by `kinit -R` (`ticket_renewal`). A
broker may have got a new key meanwhile, and cannot read a ticket that was made for its old one; so
after a refused log-in the tickets are thrown away, at most once in
`sasl.kerberos.min.time.before.relogin` milliseconds.

The KDC may be slow or away. Calls of the library wait in threads of their own, and give up after
about half a minute; the event loop never waits, and a connection gives up sooner. A KDC that does
not answer is a `ConnectionFailed`, which clients try again. What a KDC refuses is an
`AuthenticationFailed`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.client.errors import AuthenticationFailed, ConnectionFailed, SettingsError
from odradek.client.login import Login
from odradek.client.ticket_renewal import TicketRenewal
from odradek.config.values import InvalidValue
from odradek.security.jaas import LoginModule
from odradek.security.kerberos.library import (
    KerberosFailed,
    KerberosMissing,
    initiating_credentials,
    load,
    new_cache,
    seconds_left,
)
from odradek.security.kerberos.login_module import (
    EXAMPLE,
    SERVICE_NAME,
    KerberosOptions,
    kerberos_options,
)
from odradek.security.sasl.client.exchange import ClientExchange
from odradek.security.sasl.client.gssapi import GssapiExchange
from odradek.world.clock import SystemClock
from odradek.world.workers import AbandonableCalls

if TYPE_CHECKING:
    from odradek.client.settings.security import SecuritySettings

PATIENCE_S: float = 8.0
"""How long a log-in waits for the KDC, so that it ends before the connection's own time limit."""


class KerberosLogin(Login):
    """Shared by the connections of one client."""

    mechanism = "GSSAPI"

    def __init__(self, settings: "SecuritySettings", module: LoginModule | None) -> None:
        self._options = options = _options(settings, module)
        self._service = _service_name(settings, options)
        self._relogin_s = settings.sasl_kerberos_min_time_before_relogin / 1000
        try:
            load()
        except KerberosMissing as error:
            raise SettingsError(str(error)) from None
        self._calls = AbandonableCalls("kerberos")
        self._clock = SystemClock()
        self._cache = new_cache(options)
        self._thrown_away_s: float | None = None
        self._renewal: TicketRenewal | None = None
        if options.keytab is None:
            left_s = partial(seconds_left, options, self._cache)
            self._renewal = TicketRenewal(self._cache, left_s, self._calls)

    async def exchange(self, host: str) -> ClientExchange:
        # As in `server_hostname` of TLS: principals have no dot of the root at the end.
        begin = partial(self._begin, self._cache, host.rstrip(".") or host)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._exchange(begin)
        except TimeoutError:
            raise ConnectionFailed(
                f"no log-in by Kerberos: the KDC has not answered for {PATIENCE_S:g} s; is it"
                " running, and does the section [realms] of krb5.conf name it?"
            ) from None
        except KerberosFailed as error:
            if error.is_temporary:
                raise ConnectionFailed(f"no log-in by Kerberos: {error}") from None
            raise AuthenticationFailed(f"no log-in by Kerberos: {error}") from None

    async def _exchange(self, begin: Callable[[], ClientExchange]) -> ClientExchange:
        try:
            exchange = await self._calls.run(begin)
        except KerberosFailed:
            if self._renewal is None or not await self._renewal.wait():
                raise
            exchange = await self._calls.run(begin)
        if self._renewal is not None:
            self._renewal.begin()
        return exchange

    def refused(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._thrown_away_s is None or now_s - self._thrown_away_s >= self._relogin_s:
            self._thrown_away_s = now_s
            self._cache = new_cache(self._options)

    def _begin(self, cache: str | None, host: str) -> ClientExchange:
        credentials = initiating_credentials(self._options, cache)
        return GssapiExchange(credentials, self._service, host)


def _options(settings: "SecuritySettings", module: LoginModule | None) -> KerberosOptions:
    if module is None:
        raise SettingsError(
            "sasl.mechanism=GSSAPI, which is Kafka's default, needs to know who logs in: set"
            f" sasl.jaas.config={EXAMPLE} (or set sasl.mechanism to another one)"
        )
    try:
        return kerberos_options(module)
    except InvalidValue as error:
        raise SettingsError(f"sasl.jaas.config {error}") from None


def _service_name(settings: "SecuritySettings", options: KerberosOptions) -> str:
    by_setting = settings.sasl_kerberos_service_name
    if by_setting and options.service_name and by_setting != options.service_name:
        raise SettingsError(
            f"{SERVICE_NAME}={by_setting}, and the JAAS line has"
            f" serviceName={options.service_name}: leave one out"
        )
    name = by_setting or options.service_name
    if not name:
        raise SettingsError(
            f"sasl.mechanism=GSSAPI needs {SERVICE_NAME}: the first part of the principal of the"
            " brokers, as in kafka/broker1.example.com@EXAMPLE.COM"
        )
    return name
