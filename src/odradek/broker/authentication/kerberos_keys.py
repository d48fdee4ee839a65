"""The mechanism GSSAPI of a listener: its keytab, its principal and its rules for names.

    listener.name.NAME.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true keyTab="/etc/odradek/kafka.keytab" principal="kafka/broker1.example.com";

A broker that cannot read its keytab, or whose keytab has not the key of the principal, does not
start: every log-in would fail.
"""

import logging

from odradek.config.listener_settings import ListenerSettings
from odradek.config.setting import InvalidSetting
from odradek.config.values import InvalidValue
from odradek.security.jaas import LoginModule
from odradek.security.kerberos.library import (
    KerberosFailed,
    KerberosMissing,
    default_realm,
    load,
)
from odradek.security.kerberos.login_module import EXAMPLE, SERVICE_NAME, kerberos_options
from odradek.security.kerberos.name_rules import NameRules
from odradek.security.sasl.server.gssapi import Gssapi
from odradek.world import World

logger = logging.getLogger("odradek.authentication")


def gssapi_mechanism(settings: ListenerSettings, module: LoginModule, world: World) -> Gssapi:
    """Raises `InvalidSetting`."""
    jaas = f"{settings.prefix}gssapi.sasl.jaas.config"
    try:
        options = kerberos_options(module)
    except InvalidValue as error:
        raise InvalidSetting(jaas, "(hidden)", str(error)) from None
    if options.keytab is None or options.principal is None:
        reason = (
            f"a broker needs a keytab: tickets of clients are read by its keys; write {EXAMPLE}"
        )
        raise InvalidSetting(jaas, "(hidden)", reason)
    try:
        load()
    except KerberosMissing as error:
        name = f"{settings.prefix}sasl.enabled.mechanisms"
        raise InvalidSetting(name, "GSSAPI", str(error)) from None
    rules = NameRules(
        settings.sasl_kerberos_principal_to_local_rules, settings.prefix, default_realm
    )
    service = options.principal.partition("/")[0]
    wanted = settings.sasl_kerberos_service_name
    if wanted and options.principal != "*" and wanted != service:
        logger.warning(
            "%s%s is %s, but the principal of the broker is %s: its clients, and other brokers,"
            " ask for tickets for %s",
            settings.prefix,
            SERVICE_NAME,
            wanted,
            options.principal,
            service,
        )
    try:
        return Gssapi(options.keytab, options.principal, rules, world.workers)
    except KerberosFailed as error:
        raise InvalidSetting(jaas, "(hidden)", str(error)) from None
