"""SCRAM credentials (RFC 5802) as Kafka stores them, without the password.

The client salts and hashes the password, and the broker stores keys that are derived from the
result. A stored credential is a line of text with values in base64:
`salt=...,stored_key=...,server_key=...,iterations=...`.
"""

import base64
import binascii
import hashlib
import hmac
from enum import IntEnum
from typing import NamedTuple

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
MAX_NAME_LENGTH = 1000
SALT_BYTES = 17
_SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in the protocol."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def kafka_name(self) -> str:
        return f"SCRAM-SHA-{self.digest[3:]}"

    @classmethod
    def named(cls, name: str) -> "ScramMechanism | None":
        """Returns the mechanism with Kafka's name, or None if there is none."""
        return next((one for one in cls if one.kafka_name == name), None)

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


def salt_from(random_bytes: bytes) -> bytes:
    """Returns a salt that is made of at least 17 random bytes, in the form in which Kafka's tools
    make them: a number of 130 bits with digits and letters. All salts have this form, so that it
    does not tell an invented one from that of a user who exists."""
    number = int.from_bytes(random_bytes, "big") % (1 << _SALT_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode() or b"0"


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Returns the password after PBKDF2, which takes milliseconds. As in Kafka, a password is UTF-8
    without SASLprep."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


class MalformedCredential(ValueError):
    """A stored credential that cannot be decoded. The message shows nothing of it, because a part
    of it may be secret."""


class ScramCredential(NamedTuple):
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def derive(
        cls, mechanism: ScramMechanism, iterations: int, salt: bytes, salted_password: bytes
    ) -> "ScramCredential":
        digest = mechanism.digest
        client_key = hmac.digest(salted_password, b"Client Key", digest)
        return cls(
            iterations,
            salt,
            hashlib.new(digest, client_key).digest(),
            hmac.digest(salted_password, b"Server Key", digest),
        )

    def encode(self) -> str:
        parts = {"salt": self.salt, "stored_key": self.stored_key, "server_key": self.server_key}
        encoded = [f"{name}={base64.b64encode(value).decode()}" for name, value in parts.items()]
        return ",".join([*encoded, f"iterations={self.iterations}"])

    @classmethod
    def decode(cls, text: str) -> "ScramCredential":
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            return cls(
                int(fields["iterations"]),
                *(
                    base64.b64decode(fields[name], validate=True)
                    for name in ("salt", "stored_key", "server_key")
                ),
            )
        except (KeyError, ValueError, binascii.Error):
            raise MalformedCredential("a stored SCRAM credential cannot be read") from None

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ...)"
