"""What the connections of one client need to be secure: a TLS context and a log-in.

A client without TLS and SASL has none of this, and imports none of it. The key material is read
from files in a worker thread, before the first connection, and again when a file was changed: so
certificates can be replaced while a client runs. Connections that are open keep theirs.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

from odradek.client.errors import SettingsError
from odradek.client.login import Login, login_of
from odradek.config.setting import InvalidSetting
from odradek.world.disk import OsDisk
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.settings.security import SecuritySettings
    from odradek.security.tls.settings import TlsSettings

# How long a connection that we close waits for the broker's word that it closes too.
_SHUTDOWN_S: Final = 2.0
_Stamps = tuple[int | None, ...]


class ClientSecurity:
    """Shared by all connections of one client, in one event loop."""

    def __init__(self, settings: "SecuritySettings", randomness: Randomness) -> None:
        self.protocol = settings.security_protocol
        self.randomness = randomness
        self.login: Login | None = login_of(settings, randomness) if settings.uses_sasl else None
        self._settings = settings
        self._disk = OsDisk()
        self._context = settings.ssl_context if settings.uses_tls else None
        self._tls = tls_settings(settings) if settings.uses_tls else None
        self._stamps: _Stamps = ()
        self._lock = asyncio.Lock()

    async def connect_options(self, host: str) -> dict[str, Any]:
        """Returns the arguments of asyncio's `create_connection` for TLS; none without TLS."""
        if self._tls is None:
            return {}
        context = await self._current_context(self._tls)
        # A name may end with the dot of the root, which no certificate has.
        return {
            "ssl": context,
            "server_hostname": host.rstrip(".") or host,
            "ssl_shutdown_timeout": _SHUTDOWN_S,
        }

    async def _current_context(self, tls: "TlsSettings") -> ssl.SSLContext:
        if self._settings.ssl_context is not None:
            return self._settings.ssl_context
        async with self._lock:
            stamps = tuple(map(self._stamp, tls.files))
            if self._context is None or stamps != self._stamps:
                self._context = await asyncio.to_thread(tls_context, self._settings)
                self._stamps = stamps
            return self._context

    def _stamp(self, path: str) -> int | None:
        try:
            return self._disk.modified_ms(path)
        except OSError:
            # Reading it says what is wrong, by the name of its setting.
            return None


def tls_settings(settings: "SecuritySettings") -> "TlsSettings":
    """Returns the `ssl.*` settings, checked; raises `SettingsError`. No file is read."""
    from odradek.security.tls.settings import (  # noqa: PLC0415 - only with TLS
        TLS_PROPERTIES,
        TlsSettings,
    )

    declared = settings.declared()
    given = {}
    for name in TLS_PROPERTIES:
        setting = declared.get(name)
        if setting is not None:
            text = setting.text(getattr(settings, name.replace(".", "_")))
            if text is not None:
                given[name] = text
    try:
        return TlsSettings.from_properties(given)
    except InvalidSetting as error:
        raise SettingsError(str(error)) from None


def tls_context(settings: "SecuritySettings") -> ssl.SSLContext:
    """Reads the key material; it blocks, so call it in a thread. Raises `SettingsError`."""
    from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - only with TLS

    try:
        return client_context(tls_settings(settings), OsDisk().read)
    except InvalidSetting as error:
        raise SettingsError(str(error)) from None
