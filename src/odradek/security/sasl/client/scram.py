"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the password never leaves the client.

Both sides prove that they know it. The client checks the broker's proof: a broker that cannot sign
the exchange has not the credentials of the user, and the log-in fails. A broker that asks for fewer
than 4,096 iterations is refused, because a listener could guess the password from what the client
would answer; one that asks for very many is refused too, because each iteration costs time.

With `tokenauth` the user name is the id of a delegation token and the password is its HMAC
(KIP-48). As in Kafka, names and passwords are UTF-8 without SASLprep.
"""

import base64
import binascii
import hashlib
import hmac
from typing import ClassVar, Final, NamedTuple

from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed
from odradek.security.scram import MIN_ITERATIONS, ScramMechanism, salted_password

MAX_ITERATIONS: Final = 1_000_000
"""Kafka's brokers accept up to 16,384; this much takes about half a second."""
_GS2_HEADER: Final = "n,,"
NONCE_BYTES: Final = 24


class SaltedPassword(NamedTuple):
    """The costly part of a log-in, which the next one with the same salt need not compute."""

    salt: bytes
    iterations: int
    value: bytes

    def __repr__(self) -> str:
        return f"SaltedPassword(iterations={self.iterations}, ...)"


class ScramUser:
    """Who logs in by SCRAM; the exchanges of one client share it."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        *,
        has_token: bool = False,
    ) -> None:
        if not username:
            raise SaslFailed(f"the user name of SASL {mechanism.kafka_name} is empty")
        if not password:
            raise SaslFailed(f"the password of SASL {mechanism.kafka_name} is empty")
        self.mechanism = mechanism
        self.username = username
        self.has_token = has_token
        self._password = password
        self._salted: SaltedPassword | None = None

    def __repr__(self) -> str:
        return f"ScramUser({self.mechanism.kafka_name}, {self.username!r})"

    def salted_password(self, salt: bytes, iterations: int) -> bytes:
        """Returns the password after PBKDF2; it takes milliseconds unless it was asked before."""
        known = self._salted
        if known is None or (known.salt, known.iterations) != (salt, iterations):
            value = salted_password(self.mechanism, self._password, salt, iterations)
            known = self._salted = SaltedPassword(salt, iterations, value)
        return known.value


class ScramExchange(ClientExchange):
    mechanism: ClassVar[str] = "SCRAM"

    def __init__(self, user: ScramUser, nonce: bytes) -> None:
        """`nonce` are random bytes that nobody can guess, at least 15."""
        assert len(nonce) >= 15, "a nonce that can be guessed"
        self.mechanism = user.mechanism.kafka_name  # type: ignore[misc]  # one class for two
        self._user = user
        self._nonce = base64.b64encode(nonce).decode()
        name = user.username.replace("=", "=3D").replace(",", "=2C")
        token = ",tokenauth=true" if user.has_token else ""
        self._first_bare = f"n={name},r={self._nonce}{token}"
        self._server_signature: bytes | None = None

    def first_message(self) -> bytes:
        return f"{_GS2_HEADER}{self._first_bare}".encode()

    def reply(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final_message(_text(challenge))
        self._check_server(_text(challenge), self._server_signature)
        self.is_complete = True
        return None

    def _final_message(self, server_first: str) -> bytes:
        fields = _fields(server_first, ("r", "s", "i"))
        nonce = fields["r"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslFailed("the broker answered with a nonce that does not continue ours")
        salt = _base64(fields["s"], "salt")
        iterations = _iterations(fields["i"])
        if not salt:
            raise SaslFailed("the broker sent an empty salt")
        digest = self._user.mechanism.digest
        salted = self._user.salted_password(salt, iterations)
        channel = base64.b64encode(_GS2_HEADER.encode()).decode()
        without_proof = f"c={channel},r={nonce}"
        signed = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        signature = hmac.digest(stored_key, signed, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", digest)
        self._server_signature = hmac.digest(server_key, signed, digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check_server(self, server_final: str, expected: bytes) -> None:
        if server_final.startswith("e="):
            raise SaslFailed(f"the broker refused the log-in: {server_final[2:202]!r}")
        signature = _base64(_fields(server_final, ("v",))["v"], "signature")
        if not hmac.compare_digest(signature, expected):
            raise SaslFailed(
                "the broker cannot prove that it knows the password: it is not the broker that"
                " this user was created at, or somebody between pretends to be it"
            )


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslFailed("the broker sent a SCRAM message that is not text") from None


def _fields(message: str, names: tuple[str, ...]) -> dict[str, str]:
    """Returns the values of a message `r=...,s=...`; these names must come first, in this order.

    An extension that must be understood (`m=`) comes before them, and there is none that we know.
    """
    parts = message.split(",")
    fields: dict[str, str] = {}
    for name, part in zip(names, parts, strict=False):
        if not part.startswith(f"{name}="):
            break
        fields[name] = part[2:]
    if len(fields) != len(names):
        raise SaslFailed("the broker sent a malformed SCRAM message")
    return fields


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslFailed(f"the broker sent a SCRAM {what} that is not base64") from None


def _iterations(text: str) -> int:
    iterations = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise SaslFailed(
            f"the broker asks for {text[:20]!r} SCRAM iterations; {MIN_ITERATIONS} to"
            f" {MAX_ITERATIONS} are accepted"
        )
    return iterations
