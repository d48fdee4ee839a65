"""A certificate authority in a directory, for clusters that have none (`odradek certs`).

    ca.crt          the certificate of the authority: what clients and brokers trust
    ca.key          its private key. Whoever reads it can pass for any broker and any client
    NAME.pem        the private key and the certificate of a broker or a client, in one file, which
                    is a keystore for Kafka (`ssl.keystore.type=PEM`) and for librdkafka

All files have mode 0600, in a directory of mode 0700. A file is replaced in one step, so a broker
that watches it never reads half of a renewal. A renewed certificate keeps its names and its
subject, because a broker refuses to reload a keystore with another subject. Keys are elliptic
curves (P-256), with which a handshake takes the least time.

Needs the extra `security` (`cryptography`).
"""

import datetime
import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from odradek.world import Clock
from odradek.world.disk import Disk

AUTHORITY: Final = "ca"
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_AUTHORITY_DAYS: Final = 3650
# Clocks differ: a certificate is valid from an hour before it was made.
_BACKDATED: Final = datetime.timedelta(hours=1)


class CertificateProblem(Exception):
    """A line that says what is wrong with a file and what to do."""


class Described(NamedTuple):
    """What a person wants to know about a certificate."""

    path: str
    subject: str
    issuer: str
    names: tuple[str, ...]
    is_authority: bool
    not_before: datetime.datetime
    not_after: datetime.datetime


class CertificateDirectory:
    """The files of one authority. `create` makes what is missing; nothing that exists is replaced
    except by `renew`."""

    def __init__(self, disk: Disk, clock: Clock, directory: str) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = directory

    @property
    def authority_path(self) -> str:
        """Returns the path of the file to trust, a PEM truststore."""
        return f"{self.directory}/{AUTHORITY}.crt"

    def path_of(self, name: str) -> str:
        """Returns the path of the keystore of a broker or a client."""
        return f"{self.directory}/{name}.pem"

    def create_authority(self, name: str = "Odradek CA") -> bool:
        """Makes the authority; returns False if there is one already."""
        if self._disk.exists(self.authority_path):
            return False
        self._disk.make_directories(self.directory)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        certificate = (
            self._builder(subject, subject, key, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        # The key first: an authority without its key could not be completed by the next call.
        self._disk.replace(f"{self.directory}/{AUTHORITY}.key", _key_pem(key))
        self._disk.replace(self.authority_path, certificate.public_bytes(Encoding.PEM))
        return True

    def create(self, name: str, hosts: Sequence[str], days: int) -> str:
        """Makes a key and a certificate for a broker or a client; returns the path of its keystore.
        Raises `CertificateProblem` if there is one of that name."""
        _check_name(name)
        path = self.path_of(name)
        if self._disk.exists(path):
            raise CertificateProblem(
                f"{path} exists; make it anew with `odradek certs renew --dir {self.directory}"
                f" --name {name}`, or choose another --name"
            )
        self._issue(path, _subject(name), _alternative_names(hosts), days)
        return path

    def renew(self, name: str, days: int) -> str:
        """Replaces the key and the certificate of `name`, with the same subject and names."""
        path = self.path_of(name)
        old = self._read(path)
        try:
            names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            names = x509.SubjectAlternativeName([])
        self._issue(path, old.subject, names, days)
        return path

    def require(self, name: str, hosts: Sequence[str], days: int, renewed_days: int) -> bool:
        """Makes the certificate of `name` if there is none, or anew if it lacks one of the hosts or
        ends within `renewed_days`. Returns whether it was made."""
        path = self.path_of(name)
        if not self._disk.exists(path):
            self.create(name, hosts, days)
            return True
        known = self.describe(path)
        wanted = [str(one.value) for one in _alternative_names(hosts)]
        missing = [one for one in wanted if one not in known.names]
        if not missing and self.days_left(known) >= renewed_days:
            return False
        names = _alternative_names([*known.names, *missing])
        self._issue(path, self._read(path).subject, names, days)
        return True

    def names(self) -> list[str]:
        """Returns the names that have a keystore in the directory."""
        if not self._disk.exists(self.directory):
            return []
        files = self._disk.list_directory(self.directory)
        return [file.removesuffix(".pem") for file in files if file.endswith(".pem")]

    def describe(self, path: str) -> Described:
        """Raises `CertificateProblem` if the file has no certificate."""
        certificate = self._read(path)
        return Described(
            path,
            certificate.subject.rfc4514_string(),
            certificate.issuer.rfc4514_string(),
            _names_of(certificate),
            _is_authority(certificate),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )

    def write_pkcs12(self, name: str, password: str) -> str:
        """Writes the key and certificates of `name` as a PKCS12 store too, for Java before 2.7."""
        pem = self._disk.read(self.path_of(name))
        leaf, *chain = x509.load_pem_x509_certificates(pem)
        key = load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # `_issue` makes no other.
        data = pkcs12.serialize_key_and_certificates(
            name.encode(), key, leaf, chain, BestAvailableEncryption(password.encode())
        )
        path = f"{self.directory}/{name}.p12"
        self._disk.replace(path, data)
        return path

    def days_left(self, described: Described) -> int:
        """Returns for how many days a certificate is still valid; negative if it has expired."""
        return (described.not_after - self._now()).days

    def _issue(
        self, path: str, subject: x509.Name, names: x509.SubjectAlternativeName, days: int
    ) -> None:
        authority = self._read(self.authority_path)
        signer = self._authority_key()
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, authority.subject, key, days).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        if list(names):
            builder = builder.add_extension(names, critical=False)
        certificate = (
            builder.add_extension(_usage(signs_certificates=False), critical=True)
            # A broker is a client of the other brokers.
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
                critical=False,
            )
            .sign(signer, hashes.SHA256())
        )
        chain = certificate.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM)
        self._disk.replace(path, _key_pem(key) + chain)

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = self._now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )

    def _authority_key(self) -> ec.EllipticCurvePrivateKey:
        path = f"{self.directory}/{AUTHORITY}.key"
        try:
            key = load_pem_private_key(self._disk.read(path), None)
        except (OSError, ValueError, TypeError) as error:
            raise CertificateProblem(
                f"the key of the authority is needed to sign, and {path} cannot be read:"
                f" {_reason(error)}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateProblem(f"{path} is not a key that `odradek certs` made")
        return key

    def _read(self, path: str) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificates(self._disk.read(path))[0]
        except FileNotFoundError:
            raise CertificateProblem(
                f"there is no {path}; make it with `odradek certs create --dir {self.directory}`"
            ) from None
        except (OSError, ValueError) as error:
            raise CertificateProblem(
                f"{path} has no certificate in PEM: {_reason(error)}"
            ) from None

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now_ms() // 1000, datetime.UTC)


def _check_name(name: str) -> None:
    allowed = "letters, digits, '.', '_' and '-'"
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    if not plain.isascii() or not plain.isalnum() or name.startswith(".") or name == AUTHORITY:
        raise CertificateProblem(f"{name!r} cannot be a name: use {allowed}, and not {AUTHORITY!r}")


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ip_address(host.strip("[]"))))
        except ValueError:
            if not _HOST.fullmatch(host):
                raise CertificateProblem(f"{host!r} is not a host name or an address") from None
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(
        str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
