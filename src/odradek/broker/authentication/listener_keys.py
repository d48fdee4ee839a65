"""The TLS keys of one listener: loaded at the start, and again when they change.

A new key counts for connections that come later; open ones go on with theirs. Keys that cannot be
used are refused, and the present ones stay in force. So is, as in Kafka, a certificate with another
distinguished name, or without an alternative name that the present one has: clients would not
accept it. `ssl.allow.dn.changes` and `ssl.allow.san.changes` allow both.
"""

import logging
import ssl
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from odradek.config.listener_settings import ListenerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.tls.contexts import server_context
from odradek.security.tls.distinguished_names import distinguished_name
from odradek.security.tls.settings import ClientAuth, TlsSettings
from odradek.security.tls.stores import read_keystore
from odradek.telemetry.logs import TOLD
from odradek.world import World

logger = logging.getLogger("odradek.authentication")

_CLIENT_AUTH: Final = "ssl.client.auth"


class _Identity(NamedTuple):
    """Who a certificate says that the broker is."""

    name: str
    alternative_names: frozenset[tuple[str, str]]


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    # None if the certificate has expired, so that no client accepts it.
    identity: _Identity | None
    settings: TlsSettings
    # When the files were written that the keys came from.
    modified: tuple[int | None, ...]


class ListenerKeys:
    """`context` is what new connections use; it is there after the first `load`."""

    def __init__(self, listener: str, protocol: str, world: World) -> None:
        self._listener = listener
        self._protocol = protocol
        self._world = world
        self._loaded: _Loaded | None = None
        # Since the start: how often keys were replaced, and how often new ones were refused.
        self.reloads = self.refusals = 0

    @property
    def context(self) -> ssl.SSLContext:
        assert self._loaded is not None
        return self._loaded.context

    async def load(self, own: ListenerSettings) -> None:
        """Puts the keys of these settings in force. Raises `InvalidSetting`, and changes nothing
        then."""
        self._loaded = await self.check(own)

    async def check(self, own: ListenerSettings) -> _Loaded:
        """Reads the keys without putting them in force. Raises `InvalidSetting`."""
        settings = self._settings(own)
        loaded = await self._world.workers.compute(lambda: self._read(settings))
        before = self._loaded
        if before is not None and before.identity is not None and loaded.identity is not None:
            _require_same(before.identity, loaded.identity, own)
        return loaded

    async def reload(self, own: ListenerSettings, *, is_forced: bool = False) -> None:
        """Reads the keys again if the settings or a file have changed. Keys that are refused are
        told to the operator, once."""
        assert self._loaded is not None
        settings = self._settings(own)
        if settings == self._loaded.settings and not is_forced:
            modified = await self._world.workers.run_blocking(lambda: self._modified(settings))
            if modified == self._loaded.modified:
                return
            # Noted now, so that a bad file is not tried again until it changes.
            self._loaded = self._loaded._replace(modified=modified)
        try:
            await self.load(own)
        except InvalidSetting as error:
            self.refusals += 1
            logger.error(
                "new TLS keys of listener %s are refused, the present ones stay: %s",
                self._listener,
                error,
            )
        else:
            self.reloads += 1
            logger.info("listener %s uses new TLS keys for new connections", self._listener)

    def _settings(self, own: ListenerSettings) -> TlsSettings:
        settings = TlsSettings.from_properties(own.tls_properties(), own.prefix)
        if self._protocol == "SASL_SSL" and _CLIENT_AUTH not in own.own:
            if settings.client_auth is not ClientAuth.NONE:
                logger.warning(
                    "%s is ignored for the SASL_SSL listener %s, as in Kafka; write %s%s",
                    _CLIENT_AUTH,
                    self._listener,
                    own.prefix,
                    _CLIENT_AUTH,
                )
            settings = replace(settings, client_auth=ClientAuth.NONE)
        return settings

    def _read(self, settings: TlsSettings) -> _Loaded:
        """Runs in a worker thread."""
        modified = self._modified(settings)
        read = self._world.disk.read
        context = server_context(settings, read)
        assert settings.keystore is not None  # Or else there would be no context.
        own = read_keystore(settings.keystore, read).chain[0]
        silent = server_context(replace(settings, client_auth=ClientAuth.NONE), read)
        try:
            identity = _identity(_shown_certificate(silent, own, settings))
        except InvalidSetting as error:
            if self._loaded is not None:
                raise
            # The broker starts all the same, as Kafka does: other listeners may be in order, and
            # a good file is loaded as soon as it is there.
            logger.error("listener %s: %s", self._listener, error, extra=TOLD)
            identity = None
        return _Loaded(context, identity, settings, modified)

    def _modified(self, settings: TlsSettings) -> tuple[int | None, ...]:
        times: list[int | None] = []
        for path in settings.files:
            try:
                times.append(self._world.disk.modified_ms(path))
            except OSError:
                times.append(None)  # It may be about to be replaced.
        return tuple(times)


def _shown_certificate(server: ssl.SSLContext, own: str, settings: TlsSettings) -> dict[str, Any]:
    """Returns the certificate that a server shows, by a handshake with it in memory. So it is also
    known that the key works. Raises `InvalidSetting` for a certificate that no client accepts."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=own)
    if settings.cipher_suites:
        client.set_ciphers("ALL")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = server.wrap_bio(to_server, to_client, server_side=True)
    far = client.wrap_bio(to_client, to_server)
    try:
        for _ in range(3):
            for side in (far, near):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        found = far.getpeercert()
    except ssl.SSLCertVerificationError as error:
        reason = f"no client would accept its certificate: {error.verify_message}"
        raise _refusal(settings, reason) from None
    except ssl.SSLError as error:
        reason = f"a TLS handshake with it fails: {(error.reason or str(error)).lower()}"
        raise _refusal(settings, reason) from None
    assert found is not None
    return dict(found)


def _refusal(settings: TlsSettings, reason: str) -> InvalidSetting:
    store = settings.keystore
    assert store is not None
    name = store.chain_property if store.location is None else store.prefix + "location"
    return InvalidSetting(name, store.location, reason)


def _identity(certificate: dict[str, Any]) -> _Identity:
    alternative = frozenset(certificate.get("subjectAltName", ()))
    return _Identity(distinguished_name(certificate), alternative)


def _require_same(before: _Identity, after: _Identity, own: ListenerSettings) -> None:
    """Raises `InvalidSetting` if the new certificate is for somebody else."""
    name = f"{own.prefix}ssl.keystore.location"
    shown = own.ssl_keystore_location
    if after.name != before.name and not own.ssl_allow_dn_changes:
        reason = (
            f"its distinguished name is {after.name}, and was {before.name}; set"
            " ssl.allow.dn.changes=true if that is meant"
        )
        raise InvalidSetting(name, shown, reason)
    missing = before.alternative_names - after.alternative_names
    if missing and not own.ssl_allow_san_changes:
        names = ", ".join(sorted(f"{kind}:{value}" for kind, value in missing))
        reason = (
            f"its certificate has no alternative name {names}, which the present one has; set"
            " ssl.allow.san.changes=true if that is meant"
        )
        raise InvalidSetting(name, shown, reason)
