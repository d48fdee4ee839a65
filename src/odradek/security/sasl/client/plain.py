"""PLAIN (RFC 4616): user name and password in one message; only for listeners with TLS.

Servers in the wild take the text as UTF-8 without normalising it, so it is sent as it was given.
"""

from typing import ClassVar

from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed


class PlainExchange(ClientExchange):
    mechanism: ClassVar[str] = "PLAIN"

    def __init__(self, username: str, password: str, authorization_id: str = "") -> None:
        for what, text in (("user name", username), ("password", password)):
            if not text:
                raise SaslFailed(f"the {what} of SASL PLAIN is empty")
            if "\0" in text:
                raise SaslFailed(f"the {what} of SASL PLAIN must not have a NUL character")
        self._parts = (authorization_id, username, password)

    def first_message(self) -> bytes:
        return "\0".join(self._parts).encode()

    def reply(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslFailed("the broker answered PLAIN with data; it must answer with none")
        self.is_complete = True
        return None
