"""Makes `ssl.SSLContext` objects from `TlsSettings`, for servers and for clients.

Python lets OpenSSL load a private key from a file only. A key that was decrypted from a PKCS12 or
JKS store must not reach a disk, so it is in a `world.private_file` for the moment of loading.
"""

import ssl
from typing import Final

from odradek.config.setting import InvalidSetting
from odradek.security.tls.cipher_suites import apply_cipher_suites
from odradek.security.tls.key_material import KeyMaterial, refuse_key_password
from odradek.security.tls.settings import ClientAuth, Store, TlsSettings
from odradek.security.tls.stores import ReadFile, read_keystore, read_truststore
from odradek.world.private_file import private_file

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(settings: TlsSettings, read: ReadFile) -> ssl.SSLContext:
    """Returns the context of a server. Raises `InvalidSetting`, which names the property and the
    file. It reads files and may derive a key from a password, so it does not belong on the loop
    while clients are served."""
    if settings.keystore is None:
        raise InvalidSetting(
            f"{settings.prefix}ssl.keystore.location",
            None,
            "must be set: a TLS server needs a private key and a certificate"
            " (`odradek certs create` makes a file with both)",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply_common(context, settings)
    _load_key(context, settings.keystore, read)
    # The client must not make the server repeat its expensive half of the handshake (TLS 1.2).
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.client_auth is not ClientAuth.NONE:
        is_required = settings.client_auth is ClientAuth.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        _load_trusted(context, settings.truststore, read, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, read: ReadFile) -> ssl.SSLContext:
    """Returns the context of a client, which shows a certificate if there is a keystore. Raises
    `InvalidSetting`, as `server_context` does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _apply_common(context, settings)
    context.check_hostname = settings.checks_hostname
    if settings.keystore is not None:
        _load_key(context, settings.keystore, read)
    _load_trusted(context, settings.truststore, read, ssl.Purpose.SERVER_AUTH)
    return context


def _apply_common(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # Compression inside TLS tells an observer what repeats (CRIME).
    context.options |= ssl.OP_NO_COMPRESSION
    apply_cipher_suites(context, settings)


def _load_key(context: ssl.SSLContext, store: Store, read: ReadFile) -> None:
    material = read_keystore(store, read)
    is_asked = False

    def password() -> str:
        nonlocal is_asked
        is_asked = True
        return material.key_password or ""

    with private_file(_as_bytes(material)) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = "the private key does not belong to its first certificate"
                raise InvalidSetting(_source(store), store.location, reason) from None
            if is_asked:
                refuse_key_password(store)
            reason = f"OpenSSL does not accept the key or the certificate: {_reason(error)}"
            raise InvalidSetting(_source(store), store.location, reason) from None


def _load_trusted(
    context: ssl.SSLContext, store: Store | None, read: ReadFile, purpose: ssl.Purpose
) -> None:
    # As in Java, every certificate in a truststore is trusted, also one that another one signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if store is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata="\n".join(read_truststore(store, read)))
    except ssl.SSLError as error:
        reason = f"OpenSSL does not accept a certificate in it: {_reason(error)}"
        raise InvalidSetting(_source(store), store.location, reason) from None


def _source(store: Store) -> str:
    return store.chain_property if store.location is None else store.prefix + "location"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _as_bytes(material: KeyMaterial) -> bytes:
    return "\n".join([material.key, *material.chain, ""]).encode()
