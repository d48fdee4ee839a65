"""GSSAPI (RFC 4752) of a client: it shows a ticket of Kerberos, and the broker proves who it is.

The first message has the ticket, so the KDC may have to be asked for it before: whoever makes the
exchange does so in a worker thread (`client.kerberos_login`). The later messages need no KDC. No
security layer is chosen: encryption is the matter of TLS.
"""

from typing import Any, ClassVar, Final

from odradek.security.kerberos.library import KerberosFailed, explained, load, service_name
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed

_NO_LAYER: Final = 1
_CHOICE: Final = bytes((_NO_LAYER, 0, 0, 0))


class GssapiExchange(ClientExchange):
    mechanism: ClassVar[str] = "GSSAPI"

    def __init__(self, credentials: Any, service: str, host: str) -> None:
        """Gets a ticket for the service, which may take long. Raises `KerberosFailed`."""
        gssapi = load()
        flags = gssapi.RequirementFlag
        with explained(f"no ticket for {service}/{host}"):
            self._context = gssapi.SecurityContext(
                name=service_name(service, host),
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity,
            )
            self._context.__DEFER_STEP_ERRORS__ = False
            self._first_message: bytes = self._context.step()
        self._has_chosen = False

    def first_message(self) -> bytes:
        return self._first_message

    def reply(self, challenge: bytes) -> bytes | None:
        try:
            with explained("the broker's answer is refused"):
                return self._reply(challenge)
        except KerberosFailed as error:
            raise SaslFailed(str(error)) from None

    def _reply(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            if challenge:
                raise SaslFailed("the broker goes on after the end of the log-in")
            self.is_complete = True
            return None
        if not self._context.complete:
            if not challenge:
                raise SaslFailed("the broker has not proved who it is")
            return self._context.step(challenge) or b""
        offer = self._context.unwrap(challenge).message
        if len(offer) < len(_CHOICE) or not offer[0] & _NO_LAYER:
            raise SaslFailed("the broker wants a security layer of GSSAPI, which we do not have")
        choice: bytes = self._context.wrap(_CHOICE, encrypt=False).message
        self._has_chosen = True
        return choice
