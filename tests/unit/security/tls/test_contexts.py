"""Contexts from every format of store, checked by real handshakes in memory."""

import ssl
from pathlib import Path

import pytest

from odradek.config.setting import InvalidSetting
from odradek.security.tls.contexts import client_context, server_context
from odradek.security.tls.settings import TlsSettings
from tests.certificates import PASSWORD, Authority
from tests.unit.security.tls.handshake import shake_hands

AUTHORITY = Authority()
SERVER = AUTHORITY.issue("server")
ALICE = AUTHORITY.issue("Alice")
STRANGER = Authority("another CA")


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def server(**properties: str) -> ssl.SSLContext:
    return server_context(TlsSettings.from_properties(_names(properties)), read)


def client(**properties: str) -> ssl.SSLContext:
    trust = (
        {} if "truststore_location" in properties else {"truststore_certificates": AUTHORITY.pem}
    )
    return client_context(TlsSettings.from_properties(_names({**trust, **properties})), read)


def _names(properties: dict[str, str]) -> dict[str, str]:
    return {"ssl." + name.replace("_", "."): text for name, text in properties.items()}


def inline(**more: str) -> ssl.SSLContext:
    return server(keystore_key=SERVER.key_pem, keystore_certificate_chain=SERVER.chain_pem, **more)


@pytest.mark.parametrize(
    ("suffix", "store_type"),
    [
        *((suffix, kind) for suffix in (".p12", ".jks") for kind in ("", "JKS", "PKCS12")),
        (".pem", ""),
        (".pem", "JKS"),
        (".pem", "PEM"),
    ],
)
def test_keystores_and_truststores_of_every_format(
    suffix: str, store_type: str, tmp_path: Path
) -> None:
    keys = SERVER.keystore(tmp_path / f"keys{suffix}")
    trust = AUTHORITY.truststore(tmp_path / f"trust{suffix}")
    passwords = {} if suffix == ".pem" else {"password": PASSWORD}
    near, far = shake_hands(
        server(
            keystore_type=store_type,
            keystore_location=str(keys),
            **{f"keystore_{name}": text for name, text in passwords.items()},
        ),
        client(
            truststore_type=store_type,
            truststore_location=str(trust),
            **{f"truststore_{name}": text for name, text in passwords.items()},
        ),
    )
    assert near.version() == far.version() == "TLSv1.3"


def test_pem_in_properties_with_an_encrypted_key_in_one_line() -> None:
    in_a_line = " ".join(SERVER.locked_key_pem.split("\n"))
    chain = " ".join(SERVER.chain_pem.split("\n"))
    context = server(
        keystore_key=in_a_line, keystore_certificate_chain=chain, key_password=PASSWORD
    )
    shake_hands(context, client())


def test_the_key_of_a_jks_store_may_have_a_password_of_its_own(tmp_path: Path) -> None:
    keys = SERVER.keystore(tmp_path / "keys.jks", key_password="other")
    properties = {"keystore_location": str(keys), "keystore_password": PASSWORD}
    shake_hands(server(**properties, key_password="other"), client())
    with pytest.raises(InvalidSetting, match=r"ssl\.key\.password: must be set: the key in .*keys"):
        server(**properties)


def test_a_server_without_a_key_is_told_what_makes_one() -> None:
    with pytest.raises(InvalidSetting) as raised:
        server()
    assert str(raised.value) == (
        "ssl.keystore.location: must be set: a TLS server needs a private key and a certificate"
        " (`odradek certs create` makes a file with both)"
    )


def test_client_certificates() -> None:
    own = {"keystore_key": ALICE.key_pem, "keystore_certificate_chain": ALICE.chain_pem}
    required = inline(client_auth="required", truststore_certificates=AUTHORITY.pem)
    requested = inline(client_auth="requested", truststore_certificates=AUTHORITY.pem)
    near, _ = shake_hands(required, client(**own))
    assert near.getpeercert()
    shake_hands(requested, client())
    with pytest.raises(ssl.SSLError):
        shake_hands(required, client())
    mallory = STRANGER.issue("Alice")
    foreign = {"keystore_key": mallory.key_pem, "keystore_certificate_chain": mallory.chain_pem}
    late = AUTHORITY.issue("Alice", expired=True)
    expired = {"keystore_key": late.key_pem, "keystore_certificate_chain": late.chain_pem}
    for context in (required, requested):
        for bad in (foreign, expired):
            with pytest.raises(ssl.SSLError):
                shake_hands(context, client(**bad))


def test_the_client_checks_authority_and_host() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(inline(), client(truststore_certificates=STRANGER.pem))
    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        shake_hands(inline(), client(), host="elsewhere")
    shake_hands(inline(), client(endpoint_identification_algorithm=""), host="elsewhere")


def test_an_intermediate_authority_in_a_truststore_is_trusted_as_in_java() -> None:
    below = Authority("below", signer=AUTHORITY)
    issued = below.issue("server")
    near = server(keystore_key=issued.key_pem, keystore_certificate_chain=issued.chain_pem)
    shake_hands(near, client(truststore_certificates=below.pem))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_one_version_alone(version: str) -> None:
    near, _ = shake_hands(inline(enabled_protocols=version), client())
    assert near.version() == version


def test_versions_before_1_2_are_not_spoken() -> None:
    old = client()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        shake_hands(inline(), old)


@pytest.mark.parametrize(
    ("suites", "found"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
    ],
)
def test_cipher_suites_by_javas_names(suites: str, found: str) -> None:
    near, _ = shake_hands(inline(cipher_suites=suites), client())
    cipher = near.cipher()
    assert cipher is not None
    assert (cipher[0], near.version()) == (found, "TLSv1.2")


def test_cipher_suites_that_cannot_be_obeyed_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="add TLS_AES_256_GCM_SHA384"):
        inline(cipher_suites="TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256")
    with pytest.raises(InvalidSetting, match="no cipher suite TLS_FOO_WITH_BAR"):
        inline(cipher_suites="TLS_FOO_WITH_BAR")


@pytest.mark.parametrize("suffix", [".p12", ".jks"])
def test_a_wrong_password_names_property_and_file(suffix: str, tmp_path: Path) -> None:
    keys = SERVER.keystore(tmp_path / f"keys{suffix}")
    message = rf"\(hidden\) for ssl.keystore.password: it does not open .*keys{suffix}"
    with pytest.raises(InvalidSetting, match=message) as refused:
        server(keystore_location=str(keys), keystore_password="planted-secret")
    assert "planted-secret" not in str(refused.value)


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    def refused(content: bytes, *, store_type: str = "") -> str:
        path = tmp_path / "store"
        path.write_bytes(content)
        with pytest.raises(InvalidSetting) as error:
            server(keystore_location=str(path), keystore_type=store_type, keystore_password="")
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
        return error.value.reason

    assert refused(b"") == "the file is empty"
    assert refused(b"hello") == "it is neither PEM nor PKCS12 nor JKS"
    assert "set ssl.keystore.type=PEM" in refused(SERVER.key_pem.encode(), store_type="PKCS12")
    assert "it is not a PEM file" in refused(b"\x30\x00", store_type="PEM")
    assert "no private key" in refused(SERVER.chain_pem.encode())
    assert "no certificate" in refused(SERVER.key_pem.encode())
    assert "2 private keys" in refused((SERVER.key_pem + ALICE.key_pem).encode())
    assert "not a PKCS12 file that can be read" in refused(b"\x30garbage")
    assert "JKS file" in refused(b"\xfe\xed\xfe\xed garbage")
    assert "does not belong" in refused((ALICE.key_pem + SERVER.chain_pem).encode())
    broken = "-----BEGIN CERTIFICATE-----\n@@@\n-----END CERTIFICATE-----\n"
    assert refused((SERVER.key_pem + broken).encode())
    with pytest.raises(InvalidSetting, match="cannot be read: No such file"):
        server(keystore_location=str(tmp_path / "missing"))


def test_an_encrypted_pem_key_needs_its_password() -> None:
    properties = {
        "keystore_key": SERVER.locked_key_pem,
        "keystore_certificate_chain": SERVER.chain_pem,
    }
    with pytest.raises(InvalidSetting, match=r"ssl\.key\.password: must be set"):
        server(**properties)
    with pytest.raises(InvalidSetting, match=r"\(hidden\) for ssl.key.password: it does not open"):
        server(**properties, key_password="wrong")


def test_a_server_needs_a_key() -> None:
    with pytest.raises(InvalidSetting, match=r"ssl\.keystore\.location: must be set"):
        server()
