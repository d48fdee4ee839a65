"""Loads the Kerberos library of MIT through the package `gssapi`, and explains its errors.

The package is an extra, because it is compiled when it is installed: `load` says in one line what
is missing. All calls of the library may wait (for a KDC, for a file), so callers make them in a
thread; the package releases the interpreter lock meanwhile.

The library reads /etc/krb5.conf, or the file that the variable KRB5_CONFIG names. Java's users name
it by `-Djava.security.krb5.conf=FILE` in KAFKA_OPTS, and that is obeyed too.
"""

import subprocess
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from odradek.security.jaas import java_property
from odradek.security.kerberos.login_module import KerberosOptions
from odradek.world.disk import OsDisk
from odradek.world.environment import environment, set_default
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from collections.abc import Iterator

# Ticket caches in memory are known by a name in the whole process.
_CACHES: Final = count(1)
_CONFIG: Final = "KRB5_CONFIG"
_CONFIG_PROPERTY: Final = "java.security.krb5.conf"
_RENEWAL_TIMEOUT_S: Final = 30.0
# The numbers of the library's errors begin here; the rest is RFC 4120's number, or the library's.
_FIRST_CODE: Final = 2_529_638_912
_UNREACHABLE: Final = 156
_CLOCKS: Final = "the clocks of both machines differ by more than 5 minutes: set them by NTP"
_ANOTHER_KEY: Final = (
    "the service has got another key since: a client needs a new ticket, or the keytab of the"
    " broker is old (export it again with ktadd)"
)
_HINTS: Final = {
    6: "create it with addprinc, or correct principal=",
    7: "create it with addprinc, or correct sasl.kerberos.service.name and the host name in"
    " bootstrap.servers or advertised.listeners: together they are SERVICE/HOST",
    24: "the keytab has not the key of this principal: export it again with ktadd",
    31: "the keytab has not the key of this principal: export it again with ktadd",
    32: "get a new one with kinit, or use a keytab",
    33: _CLOCKS,
    34: "it was sent before, by this client or by somebody who has recorded it",
    35: "the ticket is for another service",
    37: _CLOCKS,
    44: _ANOTHER_KEY,
    136: "make /etc/krb5.conf, or name another file by KRB5_CONFIG",
    154: "name its KDC in the section [realms] of krb5.conf",
    _UNREACHABLE: "is it running, and does the section [realms] of krb5.conf name it?",
    195: "get one with kinit, or use a keytab",
    224: "set default_realm in krb5.conf, or write the principal with its realm",
}


class KerberosFailed(Exception):
    """A log-in cannot go on. `is_temporary` is True if the KDC did not answer."""

    def __init__(self, reason: str, *, is_temporary: bool = False) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary


class KerberosMissing(Exception):
    """The package or the library is not installed; the text says how to install it."""


def load() -> Any:
    """Returns the package `gssapi`. Raises `KerberosMissing`."""
    path = java_property(environment(), _CONFIG_PROPERTY)
    if path is not None:
        set_default(_CONFIG, path)
    try:
        return _loaded()
    except ImportError:
        raise KerberosMissing(
            "Kerberos (GSSAPI) needs the package gssapi, which is compiled when it is installed:"
            " apt-get install libkrb5-dev gcc python3-dev (RPM: krb5-devel gcc python3-devel), and"
            f" then {install_line('kerberos')}"
        ) from None


@cache
def _loaded() -> Any:
    import gssapi  # noqa: PLC0415 - an extra, only for this mechanism

    return gssapi


@contextmanager
def explained(doing: str) -> "Iterator[None]":
    """Turns errors of the library into `KerberosFailed`. `doing` begins its text."""
    gssapi = load()
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        code = (error.min_code & 0xFFFF_FFFF) - _FIRST_CODE
        raise KerberosFailed(
            f"{doing}: {_text(gssapi, error, code)}", is_temporary=code == _UNREACHABLE
        ) from None


def _text(gssapi: Any, error: Any, code: int) -> str:
    # The mechanism's own text says more, if it has one.
    exceptions = gssapi.exceptions
    if isinstance(error, exceptions.ExpiredCredentialsError):
        return f"the ticket has expired: {_HINTS[32]}"
    if isinstance(error, exceptions.InvalidTokenError):
        return "that is not a message of Kerberos"
    texts = error.get_all_statuses(error.min_code, False) if error.min_code else []
    text = " ".join(texts or error.get_all_statuses(error.maj_code, True))
    hint = _HINTS.get(code)
    return text if hint is None else f"{text}: {hint}"


def principal_name(principal: str) -> Any:
    gssapi = load()
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


def service_name(service: str, host: str) -> Any:
    """Returns the name SERVICE/HOST. Whether aliases of the host are resolved is for krb5.conf to
    say (`dns_canonicalize_hostname`, `rdns`)."""
    gssapi = load()
    return gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)


def default_realm() -> str:
    """Returns `default_realm` of krb5.conf; empty if there is none. Reads a file."""
    gssapi = load()
    try:
        name = principal_name("name").canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


def accepting_credentials(keytab: str, principal: str) -> Any:
    """Returns the keys by which a service reads tickets, as they are in the keytab now.

    `*` accepts tickets for every principal in it. Raises `KerberosFailed`.
    """
    gssapi = load()
    check_readable(keytab)
    with explained(f"the keytab {keytab} cannot be used"):
        return gssapi.Credentials(
            name=None if principal == "*" else principal_name(principal),
            usage="accept",
            mechs=[gssapi.MechType.kerberos],
            store={"keytab": keytab},
        )


def check_readable(keytab: str) -> None:
    """The library says of a keytab that it cannot read that there is no ticket cache."""
    try:
        OsDisk().read(keytab)
    except OSError as error:
        raise KerberosFailed(
            f"the keytab {keytab} cannot be read: {error.strerror or error}"
        ) from None


def new_cache(options: KerberosOptions) -> str | None:
    """Returns where the tickets of a log-in are kept: in memory, or for None where krb5.conf
    says."""
    if options.keytab is None:
        return options.ticket_cache
    return f"MEMORY:odradek-{next(_CACHES)}"


def initiating_credentials(options: KerberosOptions, cache: str | None) -> Any:
    """Returns that by which tickets for services are got; asks the KDC if `cache` has nothing, or
    too little of it is left. Raises `KerberosFailed`."""
    gssapi, store = load(), {}
    if options.keytab is not None:
        # The library would only say that there is no ticket.
        accepting_credentials(options.keytab, options.principal or "*")
        store["client_keytab"] = options.keytab
    if cache is not None:
        store["ccache"] = cache
    who = options.principal or "the user of the ticket cache"
    with explained(f"no ticket for {who}"):
        return gssapi.Credentials(
            name=None if options.principal is None else principal_name(options.principal),
            usage="initiate",
            mechs=[gssapi.MechType.kerberos],
            store=store or None,
        )


def seconds_left(options: KerberosOptions, cache: str | None) -> float | None:
    """Returns for how long the ticket of a log-in is good; None for ever. Raises
    `KerberosFailed`."""
    credentials = initiating_credentials(options, cache)
    with explained("the ticket"):
        left_s: int | None = credentials.lifetime
    return left_s


def renew_cache(cache: str | None) -> None:
    """Gets a new ticket for the one in a cache, by `kinit -R`: the package `gssapi` has no call for
    that. `cache` is None for the default one. Raises `KerberosFailed`."""
    where = [] if cache is None else ["-c", cache]
    try:
        done = subprocess.run(  # noqa: S603 - the name of the cache is an argument, not code
            ["kinit", "-R", *where],  # noqa: S607 - as in a shell, and as Java finds it
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_RENEWAL_TIMEOUT_S,
        )
    except OSError as error:
        reason = f"kinit cannot be run: {error.strerror or error}; install krb5-user"
    except subprocess.TimeoutExpired:
        reason = f"kinit -R has not ended within {_RENEWAL_TIMEOUT_S:g} s: is the KDC running?"
    else:
        if not done.returncode:
            return
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        reason = f"{said}; was the ticket got as a renewable one, by kinit -r?"
    raise KerberosFailed(
        f"the tickets of {cache or 'the default cache'} stay as they are: {reason}"
    )
