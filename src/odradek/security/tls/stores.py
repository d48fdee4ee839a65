"""Reads keys and certificates from PEM, PKCS12 and JKS, as PEM.

PEM needs the standard library alone. `pkcs12_store` and `jks_store`, which need extras, are
imported when a store of that format is opened. Java opens a PKCS12 file as JKS and the reverse,
and so do stores here: the first bytes of a file say what it is.
"""

import binascii
import re
import ssl
from collections.abc import Callable
from typing import Final

from odradek.config.setting import InvalidSetting
from odradek.security.tls.key_material import KeyMaterial, refuse_store
from odradek.security.tls.settings import Store

ReadFile = Callable[[str], bytes]
"""Returns the content of a file, as `Disk.read` does. Raises OSError."""

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DER_SEQUENCE: Final = b"\x30"
# A store has a few kilobytes; a wrong path may name a file of any size.
_MAX_BYTES: Final = 16 << 20

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.*?-----END (?P=kind)-----", re.DOTALL
)
_PEM_BLOCK: Final = re.compile(r"(-----BEGIN [A-Z0-9 ]+-----)(.*?)(-----END [A-Z0-9 ]+-----)", re.S)
_MAX_LINE: Final = 64


def read_keystore(store: Store, read: ReadFile) -> KeyMaterial:
    """Returns the key of a keystore, with its certificates. Raises `InvalidSetting`."""
    if store.location is None:
        assert store.key is not None  # `TlsSettings` checks it,
        assert store.chain is not None  # and this.
        key = _one_key(store, store.prefix + "key", store.key)
        chain = _certificates(store.prefix + "certificate.chain", None, store.chain)
        return KeyMaterial(key, chain, store.key_password)
    data = _content(store, read)
    if _is_pem(store, data):
        text = _text(store, data)
        name = store.prefix + "location"
        key = _one_key(store, name, text)
        return KeyMaterial(key, _certificates(name, store.location, text), store.key_password)
    if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC)):
        from odradek.security.tls import jks_store  # noqa: PLC0415 - only for stores of that format

        return jks_store.read_key(store, data)
    from odradek.security.tls import pkcs12_store  # noqa: PLC0415 - only for stores of that format

    return pkcs12_store.read_key(store, data)


def read_truststore(store: Store, read: ReadFile) -> tuple[str, ...]:
    """Returns the certificates of a truststore in PEM. Raises `InvalidSetting`."""
    if store.location is None:
        assert store.chain is not None  # `TlsSettings` checks it
        return _certificates(store.prefix + "certificates", None, store.chain)
    data = _content(store, read)
    if _is_pem(store, data):
        return _certificates(store.prefix + "location", store.location, _text(store, data))
    if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC)):
        from odradek.security.tls import jks_store  # noqa: PLC0415 - only for stores of that format

        return jks_store.read_certificates(store, data)
    from odradek.security.tls import pkcs12_store  # noqa: PLC0415 - only for stores of that format

    return pkcs12_store.read_certificates(store, data)


def _content(store: Store, read: ReadFile) -> bytes:
    assert store.location is not None
    try:
        data = read(store.location)
    except OSError as error:
        refuse_store(store, f"the file cannot be read: {error.strerror or error}")
    if not data:
        refuse_store(store, "the file is empty")
    if len(data) > _MAX_BYTES:
        refuse_store(store, "the file is too large for a store of keys or certificates")
    return data


# PEM


def _is_pem(store: Store, data: bytes) -> bool:
    looks_like_pem = b"-----BEGIN " in data
    if store.store_type == "PEM":
        if not looks_like_pem:
            refuse_store(store, f"it is not a PEM file; set {store.prefix}type to what it is")
        return True
    if looks_like_pem and store.store_type:
        refuse_store(store, f"it is a PEM file; set {store.prefix}type=PEM")
    if not looks_like_pem and not data.startswith((_JKS_MAGIC, _JCEKS_MAGIC, _DER_SEQUENCE)):
        refuse_store(store, "it is neither PEM nor PKCS12 nor JKS")
    return looks_like_pem


def _text(store: Store, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        refuse_store(store, "it is not a text file")


def _one_key(store: Store, name: str, text: str) -> str:
    found = [match.group() for match in _PRIVATE_KEY.finditer(_in_lines(text))]
    if len(found) != 1:
        what = "no private key" if not found else f"{len(found)} private keys"
        shown = store.location if name.endswith("location") else "(hidden)"
        raise InvalidSetting(
            name, shown, f"it has {what}; it needs one, from BEGIN ... PRIVATE KEY to END"
        )
    return found[0]


def _certificates(name: str, location: str | None, text: str) -> tuple[str, ...]:
    found = tuple(match.group() for match in _CERTIFICATE.finditer(_in_lines(text)))
    shown = location or "(text)"
    if not found:
        reason = "it has no certificate, from BEGIN CERTIFICATE to END CERTIFICATE"
        raise InvalidSetting(name, shown, reason)
    for number, certificate in enumerate(found, start=1):
        try:
            ssl.PEM_cert_to_DER_cert(certificate)
        except (ValueError, binascii.Error):
            reason = f"its certificate number {number} is damaged: it is not base64"
            raise InvalidSetting(name, shown, reason) from None
    return found


def _in_lines(text: str) -> str:
    """Returns PEM text with lines as OpenSSL wants them: properties files often have a whole
    certificate in one line, with spaces where line ends were."""

    def lines(match: re.Match[str]) -> str:
        head, body, tail = match.groups()
        if ":" in body or "\n" in body.strip():
            # It has lines already, or headers of an encrypted key, which must stay as they are.
            return match.group()
        letters = "".join(body.split())
        parts = [letters[at : at + _MAX_LINE] for at in range(0, len(letters), _MAX_LINE)]
        return "\n".join([head, *parts, tail])

    return _PEM_BLOCK.sub(lines, text.replace("\r\n", "\n"))
