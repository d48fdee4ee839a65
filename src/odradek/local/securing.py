"""What `odradek up --secure` makes: a certificate authority, a certificate for each broker, the
users `admin` and `broker`, and the files with which clients log in.

    D/security/ca.crt, ca.key          the authority (`odradek.security.certificates`)
    D/security/broker-1.pem            the key and the certificate of broker 1
    D/security/passwords.properties    the first passwords of `admin` and `broker`
    D/security/secrets.properties      the key from which brokers compute delegation tokens
    D/client.properties                for Java's clients, ours, and `--command-config`
    D/librdkafka.properties            the same for kcat -F, and for clients made of librdkafka

Every listener is SASL_SSL with SCRAM, an authorizer is on, and only the two users may do anything
until others get permissions. Brokers log in to each other as `broker`, so that a new password of
`admin` does not concern them.

Each step makes only what is missing, so a second start uses what is there, and one that was
interrupted is completed. `client.properties` comes last, after the users are in the metadata store:
while it is missing, the users get their first passwords (again). A directory that has been secured
stays so: `odradek up` without `--secure` would otherwise open to everybody what was protected.
"""

import base64
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.config.properties import parse_properties
from odradek.local.cluster_directory import with_settings
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.world import Randomness, SystemClock
from odradek.world.disk import Disk, make_directory_private
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from odradek.security.certificates import CertificateDirectory

ADMIN: Final = "admin"
BROKER: Final = "broker"
LISTENER: Final = "SASL_SSL"
_MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_PREFIX: Final = f"listener.name.{LISTENER.lower()}."
_DAYS: Final = 365
# A certificate that ends sooner is renewed when the cluster starts.
_RENEWED_DAYS: Final = 60
_PASSWORD_BYTES: Final = 24
_TOKEN_KEY: Final = "delegation.token.secret.key"  # noqa: S105 - the name of a setting
_ANY_HOST: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not bound


def advertised_host(host: str) -> str:
    """Returns the host that clients are told: a certificate cannot be for "all addresses", so that
    is the name of this machine then."""
    return socket.gethostname() if host.strip("[]") in _ANY_HOST else host


class SecuredDirectory:
    """The security of the data directory of a cluster, or of a single broker."""

    def __init__(self, disk: Disk, data: str) -> None:
        """`data` is an absolute path, because the settings of brokers name files below it."""
        self._disk = disk
        self._data = data
        self._security = f"{data}/security"
        self._passwords_path = f"{self._security}/passwords.properties"
        self._secrets_path = f"{self._security}/secrets.properties"
        self.client_path = f"{data}/client.properties"
        self.librdkafka_path = f"{data}/librdkafka.properties"

    @property
    def is_made(self) -> bool:
        """Returns whether the directory has been secured, or was about to be."""
        return self._disk.exists(self._security)

    @property
    def listener(self) -> str:
        """Returns the name and the protocol of the brokers' listener."""
        return LISTENER if self.is_made else "PLAINTEXT"

    def login(self) -> dict[str, str]:
        """Returns the client properties with which `admin` logs in; none if no log-in is needed."""
        if not self.is_made:
            return {}
        properties = read_properties(self.client_path)
        properties.pop("bootstrap.servers", None)
        return properties

    @property
    def authority_path(self) -> str:
        return f"{self._security}/ca.crt"

    @property
    def truststore(self) -> dict[str, str]:
        """Returns the properties by which a client trusts the brokers and services."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority_path}

    def make(self, host: str, brokers: int) -> None:
        """Makes the authority, certificates and passwords that are missing, and renews certificates
        that end soon or lack the host."""
        certificates = self._certificates()
        hosts = _hosts()
        if host.strip("[]") not in {*hosts, *_ANY_HOST}:
            hosts.append(host.strip("[]"))
        try:
            self._disk.make_directories(self._data)
            make_directory_private(self._data)
            certificates.create_authority()
            for number in range(1, brokers + 1):
                certificates.require(f"broker-{number}", hosts, _DAYS, _RENEWED_DAYS)
            if not self._disk.exists(self._passwords_path):
                lines = (f"{user}={_new_password()}\n" for user in (ADMIN, BROKER))
                self._disk.replace(self._passwords_path, "".join(lines).encode())
            if not self._disk.exists(self._secrets_path):
                # A new key would make all delegation tokens useless, so it is made once.
                self._disk.replace(self._secrets_path, f"{_TOKEN_KEY}={_new_password()}\n".encode())
        except OSError as error:
            raise CommandFailed(
                f"cannot write {error.filename or self._security}: {error.strerror}"
            ) from None

    def _certificates(self) -> "CertificateDirectory":
        try:
            from odradek.security.certificates import CertificateDirectory
        except ImportError:
            raise CommandFailed(
                f"--secure needs the package cryptography: {install_line('security')}"
            ) from None
        return CertificateDirectory(self._disk, SystemClock(), self._security)

    def keystore_of(self, service: str) -> dict[str, str]:
        """Returns the properties of the key store of a service on this machine, which is made, or
        renewed as those of brokers are."""
        certificates = self._certificates()
        certificates.require(service, _hosts(), _DAYS, _RENEWED_DAYS)
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": certificates.path_of(service)}

    def require_password(self, user: str) -> str:
        """Returns the first password of a user, and chooses one if the user has none."""
        known = self.first_passwords()
        if user not in known:
            text = self._disk.read(self._passwords_path).decode()
            known = {**known, user: _new_password()}
            self._disk.replace(self._passwords_path, with_settings(text, known).encode())
        return known[user]

    def login_of(self, user: str) -> dict[str, str]:
        """Returns the client properties with which a user logs in by its first password."""
        password = self.require_password(user)
        return {
            "security.protocol": LISTENER,
            **self.truststore,
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": f'{_MODULE} username="{user}" password="{password}";',
        }

    def broker_settings(self, broker: int) -> dict[str, str]:
        """Returns the settings that make a broker a secured one. Passwords are referred to, so that
        a copy of the settings shows none."""
        password = f"${{file:{self._passwords_path}:{BROKER}}}"
        return {
            "security.inter.broker.protocol": LISTENER,
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            "sasl.enabled.mechanisms": f"{_MECHANISM},SCRAM-SHA-256",
            f"{_PREFIX}{_MECHANISM.lower()}.sasl.jaas.config": (
                f'{_MODULE} username="{BROKER}" password="{password}";'
            ),
            f"{_PREFIX}scram-sha-256.sasl.jaas.config": f"{_MODULE};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{self._security}/broker-{broker}.pem",
            **self.truststore,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{BROKER}",
            "allow.everyone.if.no.acl.found": "false",
            _TOKEN_KEY: f"${{file:{self._secrets_path}:{_TOKEN_KEY}}}",
        }

    @property
    def needs_users(self) -> bool:
        """Returns whether the users are to be written into the metadata store."""
        return not self._disk.exists(self.client_path)

    def first_passwords(self) -> Mapping[str, str]:
        """Returns the first password of each user."""
        return parse_properties(self._disk.read(self._passwords_path).decode())

    def write_client_files(self, bootstrap: str) -> None:
        """Writes the files for clients. Of files that exist only the addresses are changed."""
        password = self.first_passwords()[ADMIN]
        servers = {"bootstrap.servers": bootstrap}
        librdkafka = {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": self.authority_path,
            "sasl.mechanism": _MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": password,
        }
        self._write(self.librdkafka_path, "kcat -L -F", servers, librdkafka)
        self._write(
            self.client_path,
            "odradek topics --list --command-config",
            servers,
            self.login_of(ADMIN),
        )

    def _write(
        self, path: str, command: str, servers: Mapping[str, str], login: Mapping[str, str]
    ) -> None:
        if self._disk.exists(path):
            before = self._disk.read(path).decode("utf-8", "replace")
            text = with_settings(before, servers)
        else:
            before = None
            text = with_settings(
                f"# How `{ADMIN}` logs in: {command} {path}\n", {**servers, **login}
            )
        if text != before:
            self._disk.replace(path, text.encode())

    def announcement(self) -> str:
        """Returns the lines that say how to log in."""
        return (
            f"secured by TLS, SCRAM and ACLs; {ADMIN} logs in with:\n"
            f"  odradek topics --list --command-config {self.client_path}\n"
            f"  kcat -L -F {self.librdkafka_path}"
        )


def secured_directory(
    disk: Disk, data: str, host: str, brokers: int, *, is_asked: bool
) -> SecuredDirectory | None:
    """Returns the security of a directory, complete, if it is asked for or was asked for before."""
    secured = SecuredDirectory(disk, data)
    if not is_asked and not secured.is_made:
        return None
    secured.make(host, brokers)
    return secured


def _hosts() -> list[str]:
    """Returns the names of this machine."""
    from odradek.security.certificates import LOCAL_HOSTS

    return [*LOCAL_HOSTS, socket.gethostname()]


def _new_password() -> str:
    return base64.urlsafe_b64encode(Randomness().bytes(_PASSWORD_BYTES)).decode()
