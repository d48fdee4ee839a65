"""Reads JKS and JCEKS stores with `pyjks` (the extra `jks`), as PEM."""

import ssl
from typing import TYPE_CHECKING, Final

from odradek.security.tls.key_material import (
    KeyMaterial,
    refuse_key_password,
    refuse_password,
    refuse_store,
)
from odradek.security.tls.settings import Store
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from jks import KeyStore, PrivateKeyEntry

_CONVERT: Final = (
    "or convert it: keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12"
    " -deststoretype PKCS12"
)
_LINE: Final = 64


def read_key(store: Store, data: bytes) -> KeyMaterial:
    """Returns the private key of a JKS keystore. Raises `InvalidSetting`."""
    opened = _open(store, data)
    keys = list(opened.private_keys.values())
    if len(keys) != 1:
        what = "no private key" if not keys else f"private keys {', '.join(opened.private_keys)}"
        refuse_store(store, f"it has {what}; it needs exactly one")
    key = keys[0]
    _decrypt(store, key)
    chain = tuple(ssl.DER_cert_to_PEM_cert(data) for _, data in key.cert_chain)
    if not chain:
        refuse_store(store, "its private key has no certificate")
    return KeyMaterial(_private_key_pem(key.pkey_pkcs8), chain)


def read_certificates(store: Store, data: bytes) -> tuple[str, ...]:
    """Returns the trusted certificates of a JKS truststore in PEM. Without a password its
    integrity is not checked, as in Java. Raises `InvalidSetting`."""
    opened = _open(store, data)
    trusted = [entry.cert for entry in opened.certs.values()]
    # Java also trusts the own certificate of a private key in a truststore.
    trusted += [entry.cert_chain[0][1] for entry in opened.private_keys.values()]
    if not trusted:
        refuse_store(store, "it has no certificate")
    return tuple(map(ssl.DER_cert_to_PEM_cert, trusted))


def _open(store: Store, data: bytes) -> "KeyStore":
    try:
        import jks  # noqa: PLC0415 - an extra
    except ImportError:
        need = f"JKS is read by pyjks; install it: {install_line('jks')}"
        refuse_store(store, f"{need}; {_CONVERT}")
    try:
        return jks.KeyStore.loads(data, store.password, try_decrypt_keys=False)
    except jks.util.KeystoreSignatureException:
        refuse_password(store)
    except (jks.util.KeystoreException, ValueError, LookupError) as error:
        refuse_store(store, f"it is not a JKS file that can be read: {error}")


def _decrypt(store: Store, key: "PrivateKeyEntry") -> None:
    from jks.util import KeystoreException  # noqa: PLC0415 - an extra

    password = store.key_password if store.key_password is not None else store.password
    if password is None:
        refuse_password(store)
    try:
        key.decrypt(password)
    except (KeystoreException, ValueError):
        refuse_key_password(store)


def _private_key_pem(pkcs8: bytes) -> str:
    import base64  # noqa: PLC0415 - with the extra

    letters = base64.b64encode(pkcs8).decode()
    lines = [letters[at : at + _LINE] for at in range(0, len(letters), _LINE)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
