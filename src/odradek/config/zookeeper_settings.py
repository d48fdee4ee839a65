"""Settings of the connection to a ZooKeeper ensemble: TLS, a log-in, and who may read the nodes.

Kafka's names, with one of our own: `odradek.zookeeper.sasl.jaas.config`, for those who have no JAAS
file. `metadata.zookeeper_security` makes of them what a connection needs.
"""

from typing import Final

from odradek.config.kinds import boolean, names, password, string
from odradek.config.setting import Importance, Kind, Settings

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"


class ZookeeperSecuritySettings(Settings):
    zookeeper_set_acl = boolean(
        "zookeeper.set.acl",
        False,
        "Whether nodes are made so that only brokers may change them, and only brokers may read "
        "those with passwords and tokens. Brokers must log in to ZooKeeper then.",
        importance=Importance.HIGH,
    )
    odradek_zookeeper_sasl_jaas_config = password(
        "odradek.zookeeper.sasl.jaas.config",
        "How the broker logs in to ZooKeeper: a JAAS line with DigestLoginModule or "
        "Krb5LoginModule. If unset: the section Client of the JAAS file that KAFKA_OPTS names.",
    )
    zookeeper_ssl_client_enable = boolean(
        "zookeeper.ssl.client.enable",
        False,
        "Whether connections to ZooKeeper are encrypted by TLS.",
    )
    zookeeper_client_cnxn_socket = string(
        "zookeeper.clientCnxnSocket",
        None,
        f"With TLS, {NETTY}, which is the class that Kafka needs for it, or nothing.",
        kind=Kind.CLASS,
    )
    zookeeper_ssl_keystore_location = string(
        "zookeeper.ssl.keystore.location",
        None,
        "The file with the key and the certificate that the broker shows to ZooKeeper.",
    )
    zookeeper_ssl_keystore_password = password(
        "zookeeper.ssl.keystore.password", "The password of that file. A PEM file has none."
    )
    zookeeper_ssl_keystore_type = string(
        "zookeeper.ssl.keystore.type",
        None,
        "PEM, PKCS12 or JKS; unset: the file says itself which.",
    )
    zookeeper_ssl_truststore_location = string(
        "zookeeper.ssl.truststore.location",
        None,
        "The file with the certificates of the authorities whose certificates ZooKeeper may have. "
        "If unset: those of the operating system.",
    )
    zookeeper_ssl_truststore_password = password(
        "zookeeper.ssl.truststore.password", "The password of that file. A PEM file has none."
    )
    zookeeper_ssl_truststore_type = string(
        "zookeeper.ssl.truststore.type",
        None,
        "PEM, PKCS12 or JKS; unset: the file says itself which.",
    )
    zookeeper_ssl_protocol = string(
        "zookeeper.ssl.protocol",
        "TLSv1.2",
        "TLS, TLSv1.2 or TLSv1.3. It only has to be one of these: zookeeper.ssl.enabled.protocols "
        "decides.",
    )
    zookeeper_ssl_enabled_protocols = names(
        "zookeeper.ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken: TLSv1.2 and TLSv1.3, or one of them.",
    )
    zookeeper_ssl_cipher_suites = names(
        "zookeeper.ssl.cipher.suites",
        (),
        "The cipher suites that are allowed, by Java's names. If empty: those that OpenSSL "
        "recommends.",
    )
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "HTTPS",
        "HTTPS checks that the certificate of a ZooKeeper server is for its host name; empty does "
        "not check it.",
    )
