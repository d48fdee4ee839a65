"""Encrypts single values of properties files: AES-256-GCM, with a key that is kept elsewhere.

An encrypted value is base64url text: a version byte, a random nonce of 12 bytes, and the ciphertext
with its tag. A key is base64 text of 32 bytes. The same value is encrypted differently each time,
so equal passwords are not seen to be equal. It needs the package `cryptography`.
"""

import base64
import binascii
from typing import TYPE_CHECKING, Final

from odradek.world.installing import install_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_MIN_BYTES: Final = len(_VERSION) + _NONCE_BYTES + 16
# Ties the ciphertext to this use: a value that was encrypted for something else is refused.
_PURPOSE: Final = b"odradek secret 1"


class InvalidKey(ValueError):
    """The text is not a key; the message says what a key is."""


class NotDecrypted(ValueError):
    """The value cannot be decrypted with this key; the message says why."""


class CryptographyMissing(NotDecrypted):
    """The package `cryptography` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            f"encrypted values need the package cryptography: {install_line('security')}"
        )


def write_key(key: bytes) -> str:
    return base64.b64encode(key).decode()


def read_key(text: str) -> bytes:
    try:
        key = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise InvalidKey(
            "the key is not valid: a key is 32 bytes in base64, as `odradek secrets create-key`"
            " writes it"
        )
    return key


def encrypt(value: str, key: bytes, nonce: bytes) -> str:
    """`nonce` is 12 random bytes, new for every value."""
    assert len(nonce) == _NONCE_BYTES, "a nonce has 12 bytes"
    sealed = _cipher(key).encrypt(nonce, value.encode(), _PURPOSE)
    return base64.urlsafe_b64encode(_VERSION + nonce + sealed).rstrip(b"=").decode()


def decrypt(text: str, key: bytes) -> str:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        data = b""
    if len(data) < _MIN_BYTES or data[:1] != _VERSION:
        raise NotDecrypted("it is not an encrypted value; `odradek secrets encrypt` makes one")
    nonce, sealed = data[1 : 1 + _NONCE_BYTES], data[1 + _NONCE_BYTES :]
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

    try:
        return cipher.decrypt(nonce, sealed, _PURPOSE).decode()
    except (InvalidTag, UnicodeDecodeError):
        raise NotDecrypted(
            "it was encrypted with another key, or was changed since; encrypt the value again"
        ) from None


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
    except ImportError:
        raise CryptographyMissing from None
    return AESGCM(key)
