"""Reads PKCS12 stores with `cryptography` (the extra `security`), as PEM."""

from typing import TYPE_CHECKING, Final

from odradek.security.tls.key_material import KeyMaterial, refuse_password, refuse_store
from odradek.security.tls.settings import Store
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

_CONVERT: Final = "or convert it to PEM: openssl pkcs12 -in STORE -out STORE.pem"


def read_key(store: Store, data: bytes) -> KeyMaterial:
    """Returns the private key of a PKCS12 keystore. Raises `InvalidSetting`.

    Java wants the password of the key to be that of the store, and cannot read others; so
    `ssl.key.password` is not needed here.
    """
    found = _open(store, data)
    if found.key is None or found.cert is None:
        refuse_store(store, "it has no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    others = [entry.certificate for entry in found.additional_certs]
    return KeyMaterial(key, tuple(map(_pem, _in_order(found.cert.certificate, others))))


def read_certificates(store: Store, data: bytes) -> tuple[str, ...]:
    """Returns all certificates of a PKCS12 truststore in PEM. Raises `InvalidSetting`."""
    found = _open(store, data)
    entries = [found.cert, *found.additional_certs]
    certificates = tuple(_pem(entry.certificate) for entry in entries if entry is not None)
    if not certificates:
        refuse_store(store, "it has no certificate")
    return certificates


def _open(store: Store, data: bytes) -> "PKCS12KeyAndCertificates":
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415
            load_pkcs12,
        )
    except ImportError:
        need = f"PKCS12 is read by cryptography; install it: {install_line('security')}"
        refuse_store(store, f"{need}; {_CONVERT}")
    password = None if store.password is None else store.password.encode()
    try:
        return load_pkcs12(data, password)
    except ValueError as error:
        # The library says the same for a wrong password and for damage that the password hides.
        if "password" in str(error).lower():
            refuse_password(store)
        refuse_store(store, f"it is not a PKCS12 file that can be read: {error}")


def _pem(certificate: "Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - an extra

    return certificate.public_bytes(Encoding.PEM).decode()


def _in_order(own: "Certificate", others: "list[Certificate]") -> "list[Certificate]":
    """Returns the own certificate, then its issuer, and so on: a PKCS12 file has no order, and TLS
    1.2 wants this one. Certificates that belong to something else are left out."""
    chain, left = [own], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((other for other in left if other.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return chain
