"""Makes kazoo clients that talk to ZooKeeper as the operator wants: by TLS, and logged in.

kazoo has TLS and SASL of its own, but with keys from PEM files only, a log-in by a library that has
no releases any more, and an end of the client when a log-in fails. So the house's own TLS contexts
and mechanisms are used, by kazoo's own seams: the handler that opens its sockets, and the method of
its connection that logs in. This module and `kazoo_bridge` are the only ones that use kazoo's
private names.

What fails here is tried again, as a server that is away is, and `Troubles` remembers why.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, ConnectionDropped, ZookeeperError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from odradek.config.setting import InvalidSetting
from odradek.metadata.zookeeper_security import OPEN, ZookeeperSecurity
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed

logger = logging.getLogger("odradek.metadata")

# A longer delay would let a client notice late that its ensemble is back.
_RETRY: Final = {"max_tries": -1, "delay": 0.02, "backoff": 2, "max_delay": 0.5}
_REFUSED: Final = (
    "it was refused; is the password that of this user in the JAAS section Server of ZooKeeper?"
)
# No mechanism needs more; a server that always asks for another message would never end.
_MAX_MESSAGES: Final = 20

# kazoo warns of each attempt to connect; the store logs once that the connection is lost.
_kazoo_logger = logging.getLogger("odradek.metadata.kazoo")
_kazoo_logger.setLevel(logging.ERROR)


class Troubles:
    """Why the newest connection could not be used although a server was reached; empty if it
    could. Written in kazoo's thread, and by who uses the client; read anywhere."""

    def __init__(self) -> None:
        self.newest = ""

    def note(self, reason: str) -> None:
        """Tells the operator, too, unless the last attempt failed for the same reason."""
        if reason and reason != self.newest:
            logger.warning(reason)
        self.newest = reason


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Opens kazoo's sockets: with TLS, if the operator wants it."""

    def __init__(self, security: ZookeeperSecurity, troubles: Troubles) -> None:
        super().__init__()
        self._security = security
        self._troubles = troubles

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> socket.socket:
        if self._security.tls is None:
            plain: socket.socket = super().create_connection(address, timeout=timeout)
            return plain
        opened = socket.create_connection(address, timeout)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Read for each connection, so that new keys count without a restart.
            context = self._security.tls_context()
            assert context is not None
            return context.wrap_socket(opened, server_hostname=hostname or address[0])
        except InvalidSetting as error:
            opened.close()
            self._troubles.note(str(error))
            raise OSError(str(error)) from None
        except OSError as error:
            opened.close()
            self._troubles.note(_explained(hostname or address[0], error))
            raise

    def select(
        self,
        readable: Sequence[Any],
        writable: Sequence[Any],
        exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Also finds what TLS has decrypted already: the operating system does not know of it, and
        kazoo would leave it until the next bytes arrive."""
        pending = [one for one in readable if isinstance(one, ssl.SSLSocket) and one.pending()]
        found: tuple[list[Any], list[Any], list[Any]]
        found = super().select(readable, writable, exceptional, 0 if pending else timeout)
        missing = [one for one in pending if one not in found[0]]
        return [*found[0], *missing], found[1], found[2]


class LoggedInConnection(ConnectionHandler):  # type: ignore[misc]
    """Logs in on each new connection, before any request."""

    security: ZookeeperSecurity = OPEN
    troubles: Troubles

    def _connect(self, host: str, *arguments: Any) -> tuple[float, float]:
        try:
            timeouts: tuple[float, float] = super()._connect(host, *arguments)
        except ConnectionDropped as error:
            cause = error.__context__
            # With TLS 1.3 a server says only after the handshake that it wants a certificate.
            is_by_tls = isinstance(cause, ssl.SSLError | ConnectionResetError)
            if self.security.tls is not None and is_by_tls:
                assert isinstance(cause, OSError)
                self.troubles.note(_explained(host, cause))
            raise
        return timeouts

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        log_in = self.security.log_in
        assert log_in is not None
        try:
            self._exchange_messages(log_in(host), timeout)
        except (ZookeeperError, ConnectionDropped, SaslFailed, _kerberos_failed()) as error:
            is_ours = isinstance(error, SaslFailed | _kerberos_failed())
            reason = str(error) if is_ours else _REFUSED
            self.troubles.note(f"the log-in at ZooKeeper on {host} failed: {reason}")
            # kazoo would end the client for an error of the log-in, and the ensemble may be mended.
            raise ConnectionDropped(self.troubles.newest) from None

    def _exchange_messages(self, exchange: ClientExchange, timeout: float) -> None:
        message: bytes | None = exchange.first_message()
        for number in range(1, _MAX_MESSAGES):
            self._submit(SASL(message), timeout, number)
            header, buffer, offset = self._read_header(timeout)
            if header.zxid > 0:
                self.client.last_zxid = header.zxid
            if header.err:
                raise EXCEPTIONS[header.err]()
            challenge, _ = SASL.deserialize(buffer, offset)
            message = exchange.reply(challenge or b"")
            if exchange.is_complete and message is None:
                return
            message = message or b""
        raise SaslFailed("the server does not end the log-in")


def make_client(
    hosts: str,
    timeout_s: float,
    security: ZookeeperSecurity = OPEN,
    *,
    connection_class: type[LoggedInConnection] = LoggedInConnection,
    troubles: Troubles | None = None,
    **more: Any,
) -> Any:
    """Returns a client that is not started. `more` are arguments of `KazooClient`."""
    troubles = troubles or Troubles()
    client = KazooClient(
        hosts,
        timeout=timeout_s,
        handler=TlsHandler(security, troubles),
        connection_retry=dict(_RETRY),
        logger=_kazoo_logger,
        **more,
    )
    connection = connection_class(client, client._conn_retry.copy(), logger=client.logger)
    connection.security, connection.troubles = security, troubles
    if security.log_in is not None:
        # Tells kazoo to call `_authenticate_with_sasl`; the options are ours.
        connection.sasl_options = {}
    client._connection = connection
    return client


def _kerberos_failed() -> type[Exception]:
    from odradek.security.kerberos.library import KerberosFailed  # noqa: PLC0415 - loads little

    return KerberosFailed


def _explained(host: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of ZooKeeper on {host} is not trusted: {error.verify_message}; set"
            " zookeeper.ssl.truststore.location to the certificates of its authority"
        )
    if isinstance(error, ssl.SSLError | ConnectionError):
        return (
            f"no TLS with ZooKeeper on {host}: {_reason(error)}; name its secureClientPort"
            " in zookeeper.connect, and zookeeper.ssl.keystore.location if it asks for a"
            " certificate"
        )
    return ""


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
