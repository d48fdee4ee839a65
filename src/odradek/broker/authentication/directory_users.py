"""Makes the users of a directory (LDAP) from the settings of a listener."""

import logging
from typing import TYPE_CHECKING, Final

from odradek.config.listener_settings import ListenerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.sasl.server.plain import JaasUsers
from odradek.world import World
from odradek.world.installing import install_line

if TYPE_CHECKING:
    import ssl

    from odradek.security.ldap.connection import Server
    from odradek.security.ldap.directory import Layout
    from odradek.security.ldap.users import DirectoryUsers

logger = logging.getLogger("odradek.authentication")

_NAME: Final = "odradek.ldap."
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def directory_users(
    settings: ListenerSettings, local_users: JaasUsers, world: World
) -> "DirectoryUsers":
    """Raises `InvalidSetting`. The directory is not asked before somebody logs in."""
    try:
        from odradek.security.ldap.directory import Directory  # noqa: PLC0415 - an extra
        from odradek.security.ldap.users import DirectoryUsers, Limits  # noqa: PLC0415
    except ImportError:
        raise InvalidSetting(
            f"{settings.prefix}{_NAME}urls",
            ",".join(settings.odradek_ldap_urls),
            f"a directory is asked by sansldap; install it: {install_line('ldap')}",
        ) from None
    servers = _servers(settings)
    limits = Limits(
        timeout_s=settings.odradek_ldap_timeout_ms / 1000,
        max_connections=settings.odradek_ldap_max_connections,
        max_waiting=settings.odradek_ldap_max_waiting,
        cache_s=settings.odradek_ldap_cache_ms / 1000,
    )
    directory = Directory(servers, _tls(settings, servers, world), _layout(settings))
    secret = world.randomness.bytes(32)
    return DirectoryUsers(directory, local_users, limits, secret, world.clock.monotonic_s)


def _servers(settings: ListenerSettings) -> "list[Server]":
    from odradek.security.ldap.connection import Server  # noqa: PLC0415 - an extra

    servers = []
    for url in settings.odradek_ldap_urls:
        try:
            server = Server.parse(url, starts_tls=settings.odradek_ldap_start_tls)
        except ValueError as error:
            raise InvalidSetting(f"{settings.prefix}{_NAME}urls", url, str(error)) from None
        if not server.is_tls and not server.starts_tls and server.host not in _LOOPBACK:
            logger.warning(
                "passwords are sent to %s in the clear: write ldaps://, or set"
                " odradek.ldap.start.tls=true",
                url,
            )
        servers.append(server)
    return servers


def _tls(
    settings: ListenerSettings, servers: "list[Server]", world: World
) -> "ssl.SSLContext | None":
    if not any(server.is_tls or server.starts_tls for server in servers):
        return None
    from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - needs OpenSSL
    from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415

    given = {
        "ssl.truststore.location": settings.odradek_ldap_ssl_truststore_location,
        "ssl.truststore.type": settings.odradek_ldap_ssl_truststore_type,
        "ssl.truststore.password": settings.odradek_ldap_ssl_truststore_password,
    }
    properties = {name: text for name, text in given.items() if text is not None}
    if not settings.odradek_ldap_ssl_truststore_location:
        properties = {}
    tls = TlsSettings.from_properties(properties, f"{settings.prefix}{_NAME}")
    return client_context(tls, world.disk.read)


def _layout(settings: ListenerSettings) -> "Layout":
    from odradek.security.ldap.directory import Layout  # noqa: PLC0415 - an extra
    from odradek.security.ldap.names import DN, USER, parse_filter  # noqa: PLC0415

    def refuse(name: str, value: object, reason: str) -> InvalidSetting:
        return InvalidSetting(f"{settings.prefix}{_NAME}{name}", value, reason)

    user_dn, user_base = settings.odradek_ldap_user_dn, settings.odradek_ldap_user_base
    if bool(user_dn) == bool(user_base):
        raise refuse(
            "user.dn",
            user_dn,
            "set either this or odradek.ldap.user.base: they say where the users are",
        )
    if user_dn and USER not in user_dn:
        raise refuse("user.dn", user_dn, f"must have {USER} in the place of the name")
    bind_dn, bind_password = settings.odradek_ldap_bind_dn, settings.odradek_ldap_bind_password
    if bool(bind_dn) != bool(bind_password):
        # A directory accepts a bind without a password, as nobody.
        raise refuse("bind.dn", bind_dn, "set odradek.ldap.bind.password too, or neither")
    filters = {}
    for name, text, names in (
        ("user.filter", settings.odradek_ldap_user_filter, (USER,)),
        ("group.filter", settings.odradek_ldap_group_filter, (DN, USER)),
    ):
        try:
            filters[name] = parse_filter(text, names)
        except ValueError as error:
            raise refuse(name, text, f"{error}") from None
    return Layout(
        user_dn=user_dn or None,
        user_base=user_base or None,
        user_filter=filters["user.filter"],
        name_attribute=settings.odradek_ldap_user_name_attribute,
        groups_attribute=settings.odradek_ldap_user_groups_attribute or None,
        group_base=settings.odradek_ldap_group_base or None,
        group_filter=filters["group.filter"],
        group_name_attribute=settings.odradek_ldap_group_name_attribute,
        bind_dn=bind_dn or "",
        bind_password=bind_password or "",
    )
