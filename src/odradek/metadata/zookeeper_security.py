"""What a connection to ZooKeeper needs to be secure: TLS, a log-in, and ACLs of new nodes.

It is made of the settings of a broker, and of the section `Client` of the JAAS file that KAFKA_OPTS
names, as in Kafka:

    Client {
      org.apache.zookeeper.server.auth.DigestLoginModule required username="broker" password="...";
    };

With `Krb5LoginModule` it is Kerberos. Java's system properties in KAFKA_OPTS that are about this
log-in count too: `-Dzookeeper.sasl.client=false` switches it off,
`-Dzookeeper.sasl.clientconfig=NAME` names another section, and
`-Dzookeeper.sasl.client.username=NAME` is the first part of the principal of the servers.

Kazoo connects in a thread of its own, where all of this is called: reading key material for each
connection, which lets certificates be replaced while the broker runs, and asking a KDC.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.config import BrokerSettings
from odradek.config.setting import InvalidSetting
from odradek.config.values import InvalidValue
from odradek.config.zookeeper_settings import NETTY
from odradek.security.jaas import (
    ZOOKEEPER_SECTION,
    InvalidJaas,
    LoginModule,
    jaas_file_path,
    java_property,
    parse_jaas_config,
    parse_jaas_file,
)
from odradek.security.sasl.client.digest_md5 import NONCE_BYTES, DigestMd5Exchange
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed
from odradek.security.tls.settings import TlsSettings
from odradek.world.disk import Disk
from odradek.world.environment import environment
from odradek.world.randomness import Randomness

LogIn = Callable[[str], ClientExchange]
"""Begins a log-in at a host. Raises `SaslFailed` or `KerberosFailed`; it may wait for a KDC."""

_JAAS: Final = "odradek.zookeeper.sasl.jaas.config"
HOW_TO_LOG_IN: Final = (
    f"a section {ZOOKEEPER_SECTION} in the file of"
    f" KAFKA_OPTS=-Djava.security.auth.login.config=FILE, or {_JAAS}"
)
_MODULES: Final = ("DigestLoginModule", "Krb5LoginModule")
# ZooKeeper has this name in place of the host in every log-in by DIGEST-MD5.
_DIGEST_URI: Final = "zookeeper/zk-sasl-md5"
_SERVICE: Final = "zookeeper"


@dataclass(frozen=True)
class ZookeeperSecurity:
    """The default is what Kafka's is: no TLS, no log-in, nodes that are open to everybody."""

    tls: TlsSettings | None = None
    log_in: LogIn | None = None
    sets_acls: bool = False
    disk: Disk | None = None

    def tls_context(self) -> ssl.SSLContext | None:
        """Reads the key material. Raises `InvalidSetting`."""
        if self.tls is None or self.disk is None:
            return None
        from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - needs OpenSSL

        return client_context(self.tls, self.disk.read)


OPEN: Final = ZookeeperSecurity()


def zookeeper_security(
    settings: BrokerSettings, disk: Disk, randomness: Randomness
) -> ZookeeperSecurity:
    """Raises `InvalidSetting` for what cannot work, so that a broker does not start with it."""
    tls = _tls(settings)
    log_in = _log_in(settings, disk, randomness)
    security = ZookeeperSecurity(tls, log_in, settings.zookeeper_set_acl, disk)
    security.tls_context()
    has_certificate = tls is not None and tls.keystore is not None
    if security.sets_acls and log_in is None and not has_certificate:
        raise InvalidSetting(
            "zookeeper.set.acl",
            "true",
            f"nodes need an owner: log in to ZooKeeper, by {HOW_TO_LOG_IN}, or by"
            " zookeeper.ssl.keystore.location",
        )
    return security


# TLS


def _tls(settings: BrokerSettings) -> TlsSettings | None:
    if not settings.zookeeper_ssl_client_enable:
        return None
    given = settings.zookeeper_client_cnxn_socket
    if given not in (None, "", NETTY):
        reason = f"TLS needs {NETTY}; write that, or leave it out"
        raise InvalidSetting("zookeeper.clientCnxnSocket", given, reason)
    properties = {
        "ssl.keystore.location": settings.zookeeper_ssl_keystore_location,
        "ssl.keystore.password": settings.zookeeper_ssl_keystore_password,
        "ssl.keystore.type": settings.zookeeper_ssl_keystore_type,
        "ssl.truststore.location": settings.zookeeper_ssl_truststore_location,
        "ssl.truststore.password": settings.zookeeper_ssl_truststore_password,
        "ssl.truststore.type": settings.zookeeper_ssl_truststore_type,
        "ssl.protocol": settings.zookeeper_ssl_protocol,
        "ssl.enabled.protocols": ",".join(settings.zookeeper_ssl_enabled_protocols),
        "ssl.cipher.suites": ",".join(settings.zookeeper_ssl_cipher_suites),
        "ssl.endpoint.identification.algorithm": (
            settings.zookeeper_ssl_endpoint_identification_algorithm
        ),
    }
    present = {name: text for name, text in properties.items() if text is not None}
    return TlsSettings.from_properties(present, "zookeeper.")


# The log-in


def _log_in(settings: BrokerSettings, disk: Disk, randomness: Randomness) -> LogIn | None:
    variables = environment()
    if (java_property(variables, "zookeeper.sasl.client") or "true").lower() == "false":
        return None
    name, module = _module(settings, variables, disk)
    if module is None:
        return None
    if module.short_name not in _MODULES:
        reason = f"ZooKeeper needs {' or '.join(_MODULES)}, not {module.short_name}"
        raise InvalidSetting(name, "(hidden)", reason)
    if module.short_name == "Krb5LoginModule":
        service = java_property(variables, "zookeeper.sasl.client.username") or _SERVICE
        return _by_kerberos(name, module, service)
    username, password = module.options.get("username", ""), module.options.get("password", "")

    def begin(host: str) -> ClientExchange:
        nonce = randomness.bytes(NONCE_BYTES)
        return DigestMd5Exchange(username, password, _DIGEST_URI, nonce)

    try:
        begin("")
    except SaslFailed as error:
        raise InvalidSetting(name, "(hidden)", str(error)) from None
    return begin


def _module(
    settings: BrokerSettings, variables: Mapping[str, str], disk: Disk
) -> tuple[str, LoginModule | None]:
    """Returns the name of the setting that has the log-in, and the log-in, if there is one."""
    line = settings.odradek_zookeeper_sasl_jaas_config
    if line is not None:
        try:
            return _JAAS, parse_jaas_config(line)
        except InvalidJaas as error:
            raise InvalidSetting(_JAAS, "(hidden)", str(error)) from None
    name, path = "java.security.auth.login.config", jaas_file_path(variables)
    if path is None:
        return name, None
    section = java_property(variables, "zookeeper.sasl.clientconfig") or ZOOKEEPER_SECTION
    try:
        modules = parse_jaas_file(disk.read(path).decode()).get(section, ())
    except (OSError, ValueError) as error:
        reason = f"the JAAS file cannot be read: {error}"
        raise InvalidSetting(name, path, reason) from None
    return name, modules[0] if modules else None


def _by_kerberos(name: str, module: LoginModule, service: str) -> LogIn:
    from odradek.security.kerberos.library import (  # noqa: PLC0415 - an extra
        KerberosMissing,
        initiating_credentials,
        load,
        new_cache,
    )
    from odradek.security.kerberos.login_module import kerberos_options  # noqa: PLC0415
    from odradek.security.sasl.client.gssapi import GssapiExchange  # noqa: PLC0415

    try:
        options = kerberos_options(module)
        load()
    except (InvalidValue, KerberosMissing) as error:
        raise InvalidSetting(name, "(hidden)", str(error)) from None

    def begin(host: str) -> ClientExchange:
        # Another cache each time: connections are rare, and the ensemble may have got a new key.
        return GssapiExchange(initiating_credentials(options, new_cache(options)), service, host)

    return begin
