"""Settings of TLS and SASL.

Every setting of `ListenerSecuritySettings` may be set for all listeners, or for one of them with
the prefix `listener.name.NAME.`; those of SASL also for one mechanism of a listener, with the
prefix `listener.name.NAME.MECHANISM.` (`listener_settings`).
"""

from typing import Final

from odradek.config.kinds import boolean, integer, long, names, password, string
from odradek.config.ldap_settings import LdapSettings
from odradek.config.setting import MAX_INT, Importance, Kind, Scope, Settings

_PEM: Final = "as PEM text, instead of a file"


class TlsListenerSettings(Settings):
    ssl_keystore_type = string(
        "ssl.keystore.type",
        "JKS",
        "The format of the keystore: PEM, PKCS12 or JKS. With JKS, the file itself says which of "
        "the three it is.",
        scope=Scope.PER_BROKER,
    )
    ssl_keystore_location = string(
        "ssl.keystore.location",
        None,
        "The file with the private key of the broker and its certificates.",
        scope=Scope.PER_BROKER,
        importance=Importance.HIGH,
    )
    ssl_keystore_password = password(
        "ssl.keystore.password",
        "The password of the keystore. A PEM file has none.",
        scope=Scope.PER_BROKER,
    )
    ssl_keystore_key = password(
        "ssl.keystore.key", f"The private key of the broker, {_PEM}.", scope=Scope.PER_BROKER
    )
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain",
        f"The certificates of the broker, its own first, {_PEM}.",
        scope=Scope.PER_BROKER,
    )
    ssl_key_password = password(
        "ssl.key.password",
        "The password of the private key, if it has one of its own.",
        scope=Scope.PER_BROKER,
    )
    ssl_truststore_type = string(
        "ssl.truststore.type",
        "JKS",
        "The format of the truststore, as in ssl.keystore.type.",
        scope=Scope.PER_BROKER,
    )
    ssl_truststore_location = string(
        "ssl.truststore.location",
        None,
        "The file with the certificates of the authorities whose certificates are accepted. If "
        "unset: those of the operating system.",
        scope=Scope.PER_BROKER,
        importance=Importance.HIGH,
    )
    ssl_truststore_password = password(
        "ssl.truststore.password", "The password of the truststore.", scope=Scope.PER_BROKER
    )
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates",
        f"The certificates of the truststore, {_PEM}.",
        scope=Scope.PER_BROKER,
    )
    ssl_enabled_protocols = names(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken: TLSv1.2 and TLSv1.3, or one of them.",
    )
    ssl_protocol = string(
        "ssl.protocol",
        "TLSv1.3",
        "TLS, TLSv1.2 or TLSv1.3. It only has to be one of these: ssl.enabled.protocols decides.",
    )
    ssl_cipher_suites = names(
        "ssl.cipher.suites",
        (),
        "The cipher suites that are allowed, by Java's names. Those of TLS 1.3 are allowed all "
        "together or not at all. If empty: those that OpenSSL recommends.",
    )
    ssl_client_auth = string(
        "ssl.client.auth",
        "none",
        "Whether clients need a certificate (required), may have one (requested), or are not asked "
        "(none). For a SASL_SSL listener it counts only with the prefix of that listener, as in "
        "Kafka.",
        choices=("none", "requested", "required"),
        folds_case=True,
    )
    ssl_principal_mapping_rules = string(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the name of a principal is made of the distinguished name of its certificate: DEFAULT "
        "is the whole name; RULE:pattern/replacement/ with L or U behind it for lower or upper "
        "case.",
    )
    ssl_allow_dn_changes = boolean(
        "ssl.allow.dn.changes",
        False,
        "Whether a new keystore may have a certificate with another distinguished name.",
    )
    ssl_allow_san_changes = boolean(
        "ssl.allow.san.changes",
        False,
        "Whether a new keystore may have a certificate that lacks an alternative name of the "
        "present one.",
    )


class SaslListenerSettings(LdapSettings):
    sasl_enabled_mechanisms = names(
        "sasl.enabled.mechanisms",
        ("GSSAPI",),
        "The SASL mechanisms by which clients may log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
        "OAUTHBEARER, GSSAPI. GSSAPI is Kerberos, and needs the extra kerberos.",
        scope=Scope.PER_BROKER,
    )
    sasl_jaas_config = password(
        "sasl.jaas.config",
        "The JAAS line of a mechanism, by listener.name.NAME.MECHANISM.sasl.jaas.config. If unset: "
        "the section NAME.KafkaServer or KafkaServer of the JAAS file that KAFKA_OPTS names.",
        scope=Scope.PER_BROKER,
        importance=Importance.MEDIUM,
    )
    sasl_server_callback_handler_class = string(
        "sasl.server.callback.handler.class",
        None,
        "Who checks passwords (PLAIN) or tokens (OAUTHBEARER): one of Kafka's own classes by its "
        "name, or module:Class in Python. With the prefix listener.name.NAME.MECHANISM.",
        kind=Kind.CLASS,
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size",
        524_288,
        "The largest request that is received before a client has logged in. A connection on which "
        "a larger one arrives is closed.",
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms",
        0,
        "How long a log-in by SASL counts. The connection is closed when a request arrives later, "
        "unless the client has logged in again. 0: as long as the connection, or as the token.",
    )
    sasl_kerberos_service_name = string(
        "sasl.kerberos.service.name",
        None,
        "The first part of the Kerberos principal of the brokers, as in kafka/HOST@REALM. A broker "
        "needs it to log in at other brokers by GSSAPI.",
        scope=Scope.PER_BROKER,
    )
    sasl_kerberos_principal_to_local_rules = names(
        "sasl.kerberos.principal.to.local.rules",
        ("DEFAULT",),
        "How the name of a principal is made of a Kerberos principal: rules "
        "as in docs/kerberos.md, or DEFAULT, the first part of a principal of the default realm. "
        "The first rule that is for the principal counts; if there is none, the log-in fails.",
        scope=Scope.PER_BROKER,
    )
    sasl_kerberos_min_time_before_relogin = long(
        "sasl.kerberos.min.time.before.relogin",
        60_000,
        "If another broker refuses a log-in by Kerberos, the tickets are got anew; not sooner "
        "again than after this many milliseconds.",
        at_least=0,
        scope=Scope.PER_BROKER,
    )
    sasl_oauthbearer_jwks_endpoint_url = string(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        "The URL or file (file:///...) with the public keys that tokens are signed with (JWKS).",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the keys are fetched again.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "The first pause after a failed attempt to fetch the keys; it doubles each time.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "The longest pause after a failed attempt to fetch the keys.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_expected_audience = names(
        "sasl.oauthbearer.expected.audience",
        None,
        "The audiences of which a token must have one. If unset, a token that has an audience is "
        "refused.",
    )
    sasl_oauthbearer_expected_issuer = string(
        "sasl.oauthbearer.expected.issuer",
        None,
        "The issuer that a token must have. If unset: any.",
    )
    sasl_oauthbearer_scope_claim_name = string(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        "The claim of a token that has its scope.",
        may_be_empty=False,
    )
    sasl_oauthbearer_sub_claim_name = string(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim of a token that has the name of the principal.",
        may_be_empty=False,
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "By how much the clocks of the issuer and of the broker may differ.",
        at_least=0,
        importance=Importance.LOW,
    )


class ListenerSecuritySettings(TlsListenerSettings, SaslListenerSettings):
    """What a listener may have of its own."""


class DelegationTokenSettings(Settings):
    delegation_token_secret_key = password(
        "delegation.token.secret.key",
        "The secret from which the secrets of delegation tokens are computed: the same on all "
        "brokers. A new one makes all tokens useless. If unset or empty: there are no tokens.",
        importance=Importance.MEDIUM,
        aliases=("delegation.token.master.key",),
    )
    delegation_token_max_lifetime_ms = long(
        "delegation.token.max.lifetime.ms",
        7 * 24 * 3_600_000,
        "How long a delegation token can be used at most, however often it is renewed.",
        at_least=1,
    )
    delegation_token_expiry_time_ms = long(
        "delegation.token.expiry.time.ms",
        24 * 3_600_000,
        "How long a delegation token can be used without being renewed, and the longest time for "
        "which it is renewed.",
        at_least=1,
    )
    delegation_token_expiry_check_interval_ms = long(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "How often the controller removes delegation tokens that have expired. Nobody can log in "
        "with them before that either.",
        at_least=1,
        importance=Importance.LOW,
    )


class SecuritySettings(ListenerSecuritySettings, DelegationTokenSettings):
    """The settings of all listeners, and those that listeners share."""

    ssl_endpoint_identification_algorithm = string(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether this broker checks the host name in the certificates of other brokers: https, or "
        "empty for no check.",
    )
    sasl_mechanism_inter_broker_protocol = string(
        "sasl.mechanism.inter.broker.protocol",
        "GSSAPI",
        "The SASL mechanism by which this broker logs in at other brokers.",
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed log-in by SASL is delayed, so that passwords cannot be "
        "tried quickly. Other clients do not wait.",
        at_least=0,
        importance=Importance.LOW,
    )
    odradek_authentication_timeout_ms = integer(
        "odradek.authentication.timeout.ms",
        20_000,
        "How long a client may take for the TLS handshake and the log-in, before its connection is "
        "closed.",
        at_least=1,
    )
    odradek_max_unauthenticated_connections = integer(
        "odradek.max.unauthenticated.connections",
        1000,
        "How many connections may be in a TLS handshake or a log-in at the same time. If there are "
        "more, the oldest of them is closed.",
        at_least=1,
        at_most=MAX_INT,
    )
    odradek_ssl_reload_interval_ms = integer(
        "odradek.ssl.reload.interval.ms",
        10_000,
        "How often the broker looks whether the files of keystores and truststores have changed, "
        "and loads them for new connections. 0: never.",
        at_least=0,
    )
