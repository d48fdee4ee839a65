r"""OAUTHBEARER (RFC 7628): the client shows a token that somebody else has issued.

The client sends `n,,\x01auth=Bearer TOKEN\x01...`. A broker that accepts the token answers with
nothing. One that refuses it answers with a JSON document; the client must send one byte `\x01`, and
gets the broker's error as the answer to that.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed

# The characters of RFC 6750 for a token, and of RFC 7628 for extensions.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_MAX_SHOWN: Final = 200


class OAuthBearerExchange(ClientExchange):
    mechanism: ClassVar[str] = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if _TOKEN.fullmatch(token) is None:
            raise SaslFailed(
                "the OAUTHBEARER token has characters that a token cannot have; is it a JWT?"
            )
        self._token = token
        self._extensions = dict(extensions or {})
        for name, value in self._extensions.items():
            if name.lower() == "auth" or _EXTENSION_NAME.fullmatch(name) is None:
                raise SaslFailed(f"{name!r} cannot be the name of a SASL extension: use letters")
            if _EXTENSION_VALUE.fullmatch(value) is None:
                raise SaslFailed(f"the SASL extension {name} has a value that it cannot have")
        self.refusal = ""
        """What the broker said about a token that it refused."""

    def first_message(self) -> bytes:
        extensions = "".join(f"{name}={value}\x01" for name, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token}\x01{extensions}\x01".encode()

    def reply(self, challenge: bytes) -> bytes | None:
        if not challenge:
            if self.refusal:
                raise SaslFailed(f"the broker refused the token: {self.refusal}")
            self.is_complete = True
            return None
        if self.refusal:
            raise SaslFailed(f"the broker refused the token: {self.refusal}")
        shown = challenge[:_MAX_SHOWN].decode("utf-8", "replace")
        self.refusal = shown if shown.isprintable() else ascii(shown)
        return b"\x01"
