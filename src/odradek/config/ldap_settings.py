"""Settings of a directory (LDAP) that checks the passwords of PLAIN (docs/ldap.md).

They belong to SASL, so they may be set for all listeners, for one listener, or for PLAIN at one
listener: `listener.name.NAME.plain.odradek.ldap.urls`.
"""

from odradek.config.kinds import boolean, integer, names, password, string
from odradek.config.setting import Importance, Settings


class LdapSettings(Settings):
    odradek_ldap_urls = names(
        "odradek.ldap.urls",
        (),
        "The servers of the directory, as in ldaps://ldap.example:636 or ldap://ldap.example. If "
        "one cannot be reached, the next is asked. If empty: no directory is asked.",
    )
    odradek_ldap_start_tls = boolean(
        "odradek.ldap.start.tls",
        False,
        "Whether connections to ldap:// URLs begin TLS before a password is sent.",
    )
    odradek_ldap_ssl_truststore_location = string(
        "odradek.ldap.ssl.truststore.location",
        None,
        "The file with the certificates of the authorities that have signed the certificates of "
        "the servers. If unset: those of the operating system.",
    )
    odradek_ldap_ssl_truststore_type = string(
        "odradek.ldap.ssl.truststore.type",
        "JKS",
        "The format of that file, as in ssl.truststore.type.",
    )
    odradek_ldap_ssl_truststore_password = password(
        "odradek.ldap.ssl.truststore.password", "The password of that file, if it has one."
    )
    odradek_ldap_user_dn = string(
        "odradek.ldap.user.dn",
        None,
        "The distinguished name of a user, with {user} for the name, as in "
        "uid={user},ou=people,dc=example,dc=com. Either this or odradek.ldap.user.base is set.",
    )
    odradek_ldap_user_base = string(
        "odradek.ldap.user.base",
        None,
        "Where users are searched for, as in ou=people,dc=example,dc=com.",
    )
    odradek_ldap_user_filter = string(
        "odradek.ldap.user.filter",
        "(uid={user})",
        "The filter of that search, with {user} for the name.",
    )
    odradek_ldap_user_name_attribute = string(
        "odradek.ldap.user.name.attribute",
        "uid",
        "The attribute of a user's entry that has the name of the principal. A directory takes ADA "
        "for ada; the principal is what the entry says. If empty: what the client has typed.",
    )
    odradek_ldap_user_groups_attribute = string(
        "odradek.ldap.user.groups.attribute",
        None,
        "The attribute of a user's entry that has the distinguished names of its groups, such as "
        "memberOf.",
    )
    odradek_ldap_bind_dn = string(
        "odradek.ldap.bind.dn",
        None,
        "As whom the broker searches for users and groups. If unset: anonymously for users with "
        "odradek.ldap.user.base, and else as the user who logs in.",
    )
    odradek_ldap_bind_password = password("odradek.ldap.bind.password", "The password of that one.")
    odradek_ldap_group_base = string(
        "odradek.ldap.group.base",
        None,
        "Where the groups of a user are searched for. If unset: nowhere.",
    )
    odradek_ldap_group_filter = string(
        "odradek.ldap.group.filter",
        "(member={dn})",
        "The filter of that search, with {dn} for the user's distinguished name and {user} for the "
        "name.",
    )
    odradek_ldap_group_name_attribute = string(
        "odradek.ldap.group.name.attribute",
        "cn",
        "The attribute of a group's entry that has its name.",
        may_be_empty=False,
    )
    odradek_ldap_timeout_ms = integer(
        "odradek.ldap.timeout.ms",
        10_000,
        "How long a log-in may take at the directory, with the time that it waits for its turn.",
        at_least=1,
    )
    odradek_ldap_max_connections = integer(
        "odradek.ldap.max.connections",
        100,
        "How many log-ins are checked at the same time, each over a connection of its own.",
        at_least=1,
    )
    odradek_ldap_max_waiting = integer(
        "odradek.ldap.max.waiting",
        1000,
        "How many more log-ins may wait for their turn. Those that come then are refused.",
        at_least=0,
    )
    odradek_ldap_cache_ms = integer(
        "odradek.ldap.cache.ms",
        0,
        "For how long the answer about a name with a password is used again. A user who is removed "
        "or gets another password can log in by the old one for that long. 0: not at all.",
        at_least=0,
        importance=Importance.LOW,
    )
