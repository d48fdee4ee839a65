"""The JAAS line of Java's `Krb5LoginModule`: which keytab or ticket cache a log-in uses.

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true
        keyTab="/etc/odradek/ada.keytab" principal="ada@EXAMPLE.COM";
    com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;

With a keytab the library of MIT gets tickets by itself, and new ones before they end. A ticket
cache belongs to whoever made it (`kinit`, `sssd`, `k5start`). It is read at each log-in, and
clients renew the tickets in it before they end, as Java's do. Options that only say how Java keeps
its credentials (`storeKey`, `doNotPrompt`, `refreshKrb5Config`, `isInitiator`, `renewTGT`, `debug`)
are accepted without effect.
"""

from typing import Final, NamedTuple

from odradek.config.values import InvalidValue
from odradek.security.jaas import LoginModule

MODULE: Final = "Krb5LoginModule"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
EXAMPLE: Final = (
    f"com.sun.security.auth.module.{MODULE} required useKeyTab=true"
    ' keyTab="/etc/odradek/ada.keytab" principal="ada@EXAMPLE.COM";'
)
_NO_PASSWORD: Final = (
    "must have useKeyTab=true with keyTab and principal, or useTicketCache=true: nobody is asked"
    f" for a password; write {EXAMPLE}"
)


class KerberosOptions(NamedTuple):
    """Who logs in. Either `keytab` and `principal` are set, or the ticket cache is used;
    `ticket_cache` is None for the default one."""

    principal: str | None
    keytab: str | None
    ticket_cache: str | None
    service_name: str | None


def kerberos_options(module: LoginModule) -> KerberosOptions:
    """Raises `InvalidValue` for a line that cannot be used; it begins with 'must'."""
    options = module.options
    principal = options.get("principal")
    service_name = options.get("serviceName")
    if _is_true(module, "useKeyTab"):
        keytab = options.get("keyTab", "").removeprefix("file:").removeprefix("FILE:")
        missing = "keyTab" if not keytab else "principal" if not principal else None
        if missing is not None:
            raise InvalidValue(f"must have {missing} beside useKeyTab=true; write {EXAMPLE}")
        return KerberosOptions(principal, keytab, None, service_name)
    if not _is_true(module, "useTicketCache"):
        raise InvalidValue(_NO_PASSWORD)
    return KerberosOptions(principal, None, options.get("ticketCache"), service_name)


def _is_true(module: LoginModule, option: str) -> bool:
    return module.options.get(option, "").lower() == "true"
