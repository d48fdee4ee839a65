"""Certificates that `odradek certs` makes: they are trusted by TLS, and keep their names."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from odradek.security.certificates import CertificateDirectory, CertificateProblem
from odradek.security.tls.contexts import client_context, server_context
from odradek.security.tls.settings import TlsSettings
from odradek.world import SystemClock
from odradek.world.disk import OsDisk
from tests.unit.security.tls.handshake import shake_hands


@pytest.fixture
def certs(tmp_path: Path) -> CertificateDirectory:
    made = CertificateDirectory(OsDisk(), SystemClock(), str(tmp_path / "certs"))
    assert made.create_authority()
    return made


def server(settings: TlsSettings) -> ssl.SSLContext:
    return server_context(settings, OsDisk().read)


def client(settings: TlsSettings) -> ssl.SSLContext:
    return client_context(settings, OsDisk().read)


def _settings(certs: CertificateDirectory, name: str) -> TlsSettings:
    return TlsSettings.from_properties(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certs.path_of(name),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certs.authority_path,
            "ssl.client.auth": "required",
        }
    )


def test_a_broker_and_a_client_trust_each_other(certs: CertificateDirectory) -> None:
    certs.create("broker-1", ["localhost", "127.0.0.1"], 10)
    certs.create("ada", [], 10)
    seen = shake_hands(server(_settings(certs, "broker-1")), client(_settings(certs, "ada")))
    assert seen is not None


def test_a_host_that_the_certificate_does_not_name_is_refused(certs: CertificateDirectory) -> None:
    certs.create("broker-1", ["kafka.example.org"], 10)
    certs.create("ada", [], 10)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(_settings(certs, "broker-1")), client(_settings(certs, "ada")))


def test_a_renewal_keeps_subject_and_names_and_changes_the_key(certs: CertificateDirectory) -> None:
    path = certs.create("broker-1", ["kafka.example.org", "10.0.0.7"], 1)
    before = certs.describe(path)
    old = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    assert certs.renew("broker-1", 100) == path
    after = certs.describe(path)
    new = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    assert (after.subject, after.names) == (before.subject, before.names)
    assert after.names == ("kafka.example.org", "10.0.0.7")
    assert certs.days_left(after) in (99, 100)
    assert new.serial_number != old.serial_number
    assert new.public_key() != old.public_key()


def test_files_are_private_and_nothing_is_replaced(certs: CertificateDirectory) -> None:
    path = Path(certs.create("broker-1", ["localhost"], 10))
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    content = path.read_bytes()
    with pytest.raises(CertificateProblem, match="certs renew"):
        certs.create("broker-1", ["localhost"], 10)
    assert not certs.create_authority()
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "ca", "a/b", "a b", "é"])
def test_names_that_are_no_file_names_are_refused(certs: CertificateDirectory, name: str) -> None:
    with pytest.raises(CertificateProblem, match="cannot be a name"):
        certs.create(name, ["localhost"], 10)


@pytest.mark.parametrize("host", ["bad host", "a_b!", "-x", "x..y", ""])
def test_hosts_that_cannot_be_are_refused(certs: CertificateDirectory, host: str) -> None:
    with pytest.raises(CertificateProblem, match="not a host name"):
        certs.create("broker-1", [host], 10)


def test_a_missing_or_damaged_file_is_named(certs: CertificateDirectory) -> None:
    with pytest.raises(CertificateProblem, match="certs create"):
        certs.renew("nobody", 10)
    Path(certs.path_of("odd")).write_text("nothing")
    with pytest.raises(CertificateProblem, match="no certificate in PEM"):
        certs.describe(certs.path_of("odd"))
    Path(certs.directory, "ca.key").unlink()
    with pytest.raises(CertificateProblem, match="the key of the authority is needed"):
        certs.create("broker-1", ["localhost"], 10)


def test_a_pkcs12_store_has_the_same_certificate(certs: CertificateDirectory) -> None:
    certs.create("broker-1", ["localhost", "127.0.0.1"], 10)
    certs.create("ada", [], 10)
    store = certs.write_pkcs12("broker-1", "store-secret")
    broker = server(
        TlsSettings.from_properties(
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": store,
                "ssl.keystore.password": "store-secret",
            }
        )
    )
    assert shake_hands(broker, client(_settings(certs, "ada"))) is not None
