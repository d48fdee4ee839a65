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


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in the protocol."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def kafka_name(self) -> str:
        return f"SCRAM-SHA-{self.digest[3:]}"

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


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
