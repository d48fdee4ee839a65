"""Makes certificate authorities and certificates for tests, as PEM, PKCS12 and JKS."""

import datetime
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import jks
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority. Keys are elliptic curves: RSA keys take a second each to make."""

    def __init__(self, name: str = "test CA", signer: "Authority | None" = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _sign(
            _subject(name), self.key, signer or self, is_authority=True, days=(-2, 30), hosts=()
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        unit: str = "test",
        expired: bool = False,
    ) -> "Issued":
        key = ec.generate_private_key(ec.SECP256R1())
        days = (-5, -1) if expired else (-2, 20)
        certificate = _sign(_subject(name, unit), key, self, days=days, hosts=hosts)
        return Issued(key, certificate, self.certificate)

    def truststore(self, path: Path) -> Path:
        """Writes a truststore; the suffix of the path chooses its format."""
        if path.suffix == ".p12":
            entry = pkcs12.PKCS12Certificate(self.certificate, b"ca")
            data = pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(_secret()))
            path.write_bytes(data)
        elif path.suffix == ".jks":
            der = self.certificate.public_bytes(Encoding.DER)
            jks.KeyStore.new("jks", [jks.TrustedCertEntry.new("ca", der)]).save(str(path), PASSWORD)
        else:
            path.write_text(self.pem)
        return path


@dataclass(frozen=True)
class Issued:
    """A private key with its certificate and the authority's."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def key_pem(self) -> str:
        return self._pem_key(None)

    @property
    def locked_key_pem(self) -> str:
        """The key, encrypted with `PASSWORD`."""
        return self._pem_key(PASSWORD)

    @property
    def chain_pem(self) -> str:
        chain = (self.certificate, self.authority)
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in chain)

    def _pem_key(self, password: str | None) -> str:
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode()

    def keystore(self, path: Path, *, key_password: str = PASSWORD) -> Path:
        """Writes a keystore; the suffix of the path chooses its format."""
        if path.suffix == ".p12":
            lock = BestAvailableEncryption(_secret())
            path.write_bytes(
                pkcs12.serialize_key_and_certificates(
                    b"own", self.key, self.certificate, [self.authority], lock
                )
            )
        elif path.suffix == ".jks":
            pkcs8 = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            chain = [one.public_bytes(Encoding.DER) for one in (self.certificate, self.authority)]
            entry = jks.PrivateKeyEntry.new("own", chain, pkcs8, "pkcs8")
            entry.encrypt(key_password)
            jks.KeyStore.new("jks", [entry]).save(str(path), PASSWORD)
        else:
            path.write_text(self.key_pem + self.chain_pem)
        return path


def _secret() -> bytes:
    return PASSWORD.encode()


def _subject(name: str, unit: str = "test") -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "AT"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: Authority,
    *,
    days: tuple[int, int],
    hosts: tuple[str, ...],
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    issuer = subject if signer.key is key else signer.certificate.subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer.key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
