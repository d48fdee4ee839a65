"""Who asks: a user by basic log-in, a program by a bearer token, or the certificate of mutual TLS.

A file of users has a line for each, `name: CREDENTIAL`, with Kafka's SCRAM-SHA-256 credential, from
which nobody learns the password. A file of tokens has `name: SHA256`, the hexadecimal hash of the
token. `python -m odradek.web.login NAME` asks for a password and prints both lines.

Log-ins that succeeded are remembered by a hash of the header, because checking a password takes
milliseconds on purpose. That work runs in a thread, where it does not hold the interpreter.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from getpass import getpass
from typing import Any, Final, Protocol

from odradek.security.scram import MalformedCredential, ScramCredential, ScramMechanism

PEER: Final = "odradek.peer"
"""The key in an ASGI scope under which `serving` puts the client's certificate."""
ITERATIONS: Final = 8192
_REMEMBERED: Final = 1000


class BadLoginFile(ValueError):
    """A file of users or tokens that cannot be read; the message names the line."""


class LogIn(Protocol):
    """Who a request is from: this room's own users and tokens (`Login`), or those of the brokers
    that a service passes a log-in on to."""

    @property
    def is_required(self) -> bool: ...

    @property
    def challenge(self) -> str:
        """What a client without a log-in is told to send (`WWW-Authenticate`)."""

    @property
    def error_code(self) -> int:
        """The `error_code` of the answer 401."""

    async def principal(
        self, authorization: str | None, peer: Mapping[str, Any] | None
    ) -> str | None:
        """Returns the name of who asks, or None if nobody that is known does."""


@dataclass(slots=True)
class Login:
    """The ways to log in that a service offers. Without any, everybody is anonymous."""

    users: Mapping[str, ScramCredential] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Names by the hash of their token."""
    certificates: bool = False
    _known: dict[bytes, str] = field(default_factory=dict)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def is_required(self) -> bool:
        return bool(self.users or self.tokens or self.certificates)

    @property
    def error_code(self) -> int:
        return 401

    @property
    def challenge(self) -> str:
        """What a client without a log-in is told to send."""
        return 'Basic realm="odradek", charset="UTF-8"' if self.users else "Bearer"

    async def principal(
        self, authorization: str | None, peer: Mapping[str, Any] | None
    ) -> str | None:
        """Returns the name of who asks, or None if nobody that is known does."""
        if self.certificates and peer:
            name = common_name(peer)
            if name is not None:
                return name
        if authorization is None:
            return None
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.tokens:
            return self._bearer(value.strip())
        if scheme.lower() == "basic" and self.users:
            key = hmac.digest(self._secret, authorization.encode(), "sha256")
            if key in self._known:
                return self._known[key]
            name = await asyncio.to_thread(self._basic, value.strip())
            if name is not None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = name
            return name
        return None

    def _bearer(self, token: str) -> str | None:
        given = hashlib.sha256(token.encode()).hexdigest()
        found = None
        for stored, name in self.tokens.items():
            if hmac.compare_digest(stored, given):
                found = name
        return found

    def _basic(self, encoded: str) -> str | None:
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        # An unknown name costs as much time as a wrong password.
        stored = self.users.get(name) or next(iter(self.users.values()))
        given = _credential(password, stored.salt, stored.iterations)
        is_right = hmac.compare_digest(given.stored_key, stored.stored_key)
        return name if colon and is_right and name in self.users else None


def _credential(password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    return ScramCredential.derive(ScramMechanism.SHA_256, iterations, salt, salted)


def common_name(peer: Mapping[str, Any]) -> str | None:
    """Returns the common name of a certificate as `ssl` describes it."""
    for part in peer.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return None


def hashed(password: str) -> str:
    """Returns the credential of a password for a file of users."""
    return _credential(password, secrets.token_bytes(16), ITERATIONS).encode()


def hashed_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def read_users(text: str, source: str) -> dict[str, ScramCredential]:
    users = {}
    for number, name, value in _lines(text, source):
        try:
            users[name] = ScramCredential.decode(value)
        except MalformedCredential as error:
            raise BadLoginFile(
                f"{source}, line {number}: {error}; `python -m odradek.web.login {name}` prints"
                " a line"
            ) from None
    return users


def read_tokens(text: str, source: str) -> dict[str, str]:
    tokens = {}
    for number, name, value in _lines(text, source):
        if len(value) != 64 or not all(digit in "0123456789abcdef" for digit in value):
            raise BadLoginFile(
                f"{source}, line {number}: not the SHA-256 of a token in hexadecimal;"
                f" `python -m odradek.web.login {name}` prints a line"
            )
        tokens[value] = name
    return tokens


def _lines(text: str, source: str) -> list[tuple[int, str, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise BadLoginFile(f"{source}, line {number}: `name: value` is needed")
        found.append((number, name.strip(), value.strip()))
    if not found:
        raise BadLoginFile(f"{source} has no line `name: value`")
    return found


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m odradek.web.login NAME\n")
        return 2
    word = getpass(f"Password or token of {sys.argv[1]}: ")
    sys.stdout.write(f"for the file of users:  {sys.argv[1]}: {hashed(word)}\n")
    sys.stdout.write(f"for the file of tokens: {sys.argv[1]}: {hashed_token(word)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
