"""Java's names of cipher suites, which Kafka's `ssl.cipher.suites` has, in OpenSSL's words."""

import ssl
from typing import Final

from odradek.config.setting import InvalidSetting
from odradek.security.tls.settings import CIPHER_SUITES, TlsSettings

_TLS_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)


def apply_cipher_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Allows the suites of the settings and no others.

    A list without a suite of TLS 1.3 switches TLS 1.3 off, as it does in Java, and the other way
    round. OpenSSL's suites of TLS 1.3 cannot be chosen one by one from Python before 3.15, so a
    list must have all three of them or none. Raises `InvalidSetting`.
    """
    suites = settings.cipher_suites
    if not suites:
        return
    name = settings.prefix + CIPHER_SUITES
    modern = _TLS_1_3 & set(suites)
    if modern and modern != _TLS_1_3 and "TLSv1.3" in settings.protocols:
        missing = ", ".join(sorted(_TLS_1_3 - modern))
        reason = f"suites of TLS 1.3 are allowed all together or not at all; add {missing}"
        raise InvalidSetting(name, ",".join(suites), reason)
    older = [_openssl_name(suite) for suite in suites if suite not in _TLS_1_3]
    if not modern:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    for suite, openssl_name in zip((s for s in suites if s not in _TLS_1_3), older, strict=True):
        try:
            context.set_ciphers(openssl_name)
        except ssl.SSLError:
            reason = f"OpenSSL has no cipher suite {suite} for TLS 1.2"
            raise InvalidSetting(name, ",".join(suites), reason) from None
    context.set_ciphers(":".join(older))


def _openssl_name(suite: str) -> str:
    """Returns OpenSSL's name: ECDHE-RSA-AES256-GCM-SHA384 for
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384. Names of OpenSSL are accepted too."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    cipher = cipher.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return exchange + cipher
