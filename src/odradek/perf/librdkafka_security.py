"""Translates Kafka's settings of TLS and SASL to librdkafka's names, for the perf tools.

librdkafka reads neither JAAS lines nor JKS stores. Keys and certificates become PEM text in memory;
nothing is written to a disk. A setting that it cannot obey is refused, not dropped.
"""

import asyncio
from typing import TYPE_CHECKING

from odradek.client.errors import ClientError
from odradek.client.settings.shared import AdminSettings
from odradek.config.setting import InvalidSetting
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world import OsDisk, Randomness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.client.token_login import TokenLogin

_PREFIXES = ("security.", "ssl.", "sasl.")
_OTHER_ENGINE = "librdkafka cannot do that; leave it out, or choose --engine odradek"


def is_security(name: str) -> bool:
    """Returns whether a client property is about TLS or SASL."""
    return name.startswith(_PREFIXES)


def librdkafka_security(properties: "Mapping[str, str]") -> dict[str, object]:
    """Returns librdkafka's settings for those of the properties that are about TLS and SASL."""
    given = {name: value for name, value in properties.items() if is_security(name)}
    if not given:
        return {}
    settings = AdminSettings.from_properties(given)
    translated: dict[str, object] = {"security.protocol": settings.security_protocol.lower()}
    if settings.uses_tls:
        translated |= _tls(settings)
    if settings.uses_sasl:
        translated |= _sasl(settings)
    return translated


def _tls(settings: AdminSettings) -> dict[str, object]:
    from odradek.client.security import tls_settings
    from odradek.security.tls.stores import read_keystore, read_truststore

    tls, read = tls_settings(settings), OsDisk().read
    if tls.protocols != AdminSettings().ssl_enabled_protocols:
        raise UsageError(f"ssl.enabled.protocols={','.join(tls.protocols)}: {_OTHER_ENGINE}")
    if tls.cipher_suites:
        raise UsageError(f"ssl.cipher.suites={','.join(tls.cipher_suites)}: {_OTHER_ENGINE}")
    translated: dict[str, object] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_hostname else "none"
    }
    try:
        if tls.truststore is not None:
            translated["ssl.ca.pem"] = "\n".join(read_truststore(tls.truststore, read))
        if tls.keystore is not None:
            material = read_keystore(tls.keystore, read)
            translated["ssl.key.pem"] = material.key
            translated["ssl.certificate.pem"] = "\n".join(material.chain)
            if material.key_password:
                translated["ssl.key.password"] = material.key_password
    except InvalidSetting as error:
        raise UsageError(str(error)) from None
    return translated


def _sasl(settings: AdminSettings) -> dict[str, object]:
    from odradek.client.login import jaas_options, login_of, username_and_password

    mechanism = settings.sasl_mechanism.upper()
    if mechanism == "GSSAPI":
        raise UsageError(
            "sasl.mechanism=GSSAPI: librdkafka in confluent-kafka is made without Kerberos; choose"
            " --engine odradek"
        )
    translated: dict[str, object] = {"sasl.mechanism": mechanism}
    options = jaas_options(settings)
    if mechanism == "OAUTHBEARER":
        login: TokenLogin = login_of(settings, Randomness())  # type: ignore[assignment]

        def token(_: object) -> tuple[str, float]:
            try:
                found = asyncio.run(login.token())
            except ClientError as error:
                raise CommandFailed(str(error)) from None
            return found.text, found.expires_s or 0.0

        translated["oauth_cb"] = token
    elif options.get("tokenauth", "").lower() == "true":
        raise UsageError(f"tokenauth in sasl.jaas.config: {_OTHER_ENGINE}")
    else:
        translated["sasl.username"], translated["sasl.password"] = username_and_password(settings)
    return translated
