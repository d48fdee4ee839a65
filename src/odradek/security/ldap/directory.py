"""Asks a directory whether a password is right, who the user is, and in which groups.

1. Find the user's distinguished name: from a template, or by a search.
2. Bind with it and the password. The directory decides; the broker never sees a stored password.
3. Read the name of the principal from the user's entry. A directory takes `ADA` and `ada` for the
   same user. If the principal were what the client has typed, a rule that denies something to
   `User:ada` would not be about `User:ADA`.
4. Read the groups, from the user's entry, by a search, or both.
"""

import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

from sansldap import LDAPFilter, LDAPResultCode, SearchScope

from odradek.security.ldap.connection import (
    DirectoryConnection,
    DirectoryFailed,
    Entry,
    Server,
    described,
)
from odradek.security.ldap.names import (
    DN,
    EVERYTHING,
    USER,
    dn_value,
    first_value,
    with_names,
)

# The name or the password is wrong. By other codes the directory cannot say.
_REFUSALS: Final = frozenset(
    {
        LDAPResultCode.INVALID_CREDENTIALS,
        LDAPResultCode.INAPPROPRIATE_AUTHENTICATION,
        LDAPResultCode.INVALID_DN_SYNTAX,
        LDAPResultCode.NO_SUCH_OBJECT,
        LDAPResultCode.UNWILLING_TO_PERFORM,
        LDAPResultCode.CONSTRAINT_VIOLATION,
    }
)
_MAX_USERS: Final = 2
_MAX_GROUPS: Final = 1000


class Layout(NamedTuple):
    """Where a directory has its users and groups. Either `user_dn` is set, or `user_base` and
    `user_filter`; `group_filter` is set if `group_base` is."""

    user_dn: str | None
    user_base: str | None
    user_filter: LDAPFilter | None
    # Empty if the name of the principal is what the client has typed.
    name_attribute: str
    groups_attribute: str | None
    group_base: str | None
    group_filter: LDAPFilter | None
    group_name_attribute: str
    # As whom users and groups are searched for; empty if there is nobody.
    bind_dn: str = ""
    bind_password: str = ""

    def __repr__(self) -> str:
        return f"Layout({self.user_dn or self.user_base})"


class Member(NamedTuple):
    """A user whose password was right."""

    name: str
    groups: tuple[str, ...]


class Directory:
    def __init__(
        self, servers: Iterable[Server], tls: ssl.SSLContext | None, layout: Layout
    ) -> None:
        """`tls` is not None if a server needs it."""
        self._servers = tuple(servers)
        self._tls = tls
        self._layout = layout

    async def log_in(self, name: str, password: str) -> Member | None:
        """Returns the user, or None if the name or the password is wrong. Neither may be empty.
        Raises `DirectoryFailed`. The caller limits the time."""
        connection = await self._connect()
        try:
            return await self._log_in(connection, name, password)
        finally:
            connection.close()

    async def _connect(self) -> DirectoryConnection:
        failures = []
        for server in self._servers:
            try:
                return await DirectoryConnection.open(server, self._tls)
            except DirectoryFailed as error:
                failures.append(str(error))
        raise DirectoryFailed("; ".join(failures))

    async def _log_in(
        self, connection: DirectoryConnection, name: str, password: str
    ) -> Member | None:
        layout = self._layout
        found: Entry | None = None
        if layout.user_dn is not None:
            dn = layout.user_dn.replace(USER, dn_value(name))
        else:
            found = await self._find_user(connection, name)
            if found is None:
                return None
            dn = found.dn
        # A directory takes an empty name or password for a log-in as nobody, and accepts it.
        if not dn or not password:
            return None
        result = await connection.bind(dn, password)
        if result.result_code in _REFUSALS:
            return None
        if result.result_code is not LDAPResultCode.SUCCESS:
            raise DirectoryFailed(f"the bind as {dn!r} failed: {described(result)}")
        if found is None:
            found = await self._own_entry(connection, dn)
        principal = self._principal(found, name)
        return Member(principal, await self._groups(connection, found, name))

    async def _find_user(self, connection: DirectoryConnection, name: str) -> Entry | None:
        layout = self._layout
        assert layout.user_base is not None
        assert layout.user_filter is not None
        await self._bind_as_service(connection)
        found = await connection.search(
            layout.user_base,
            with_names(layout.user_filter, {USER: name}),
            self._user_attributes,
            size_limit=_MAX_USERS,
        )
        if len(found) > 1:
            raise DirectoryFailed(f"several entries below {layout.user_base} are {name!r}")
        return found[0] if found else None

    async def _own_entry(self, connection: DirectoryConnection, dn: str) -> Entry:
        """Returns the entry of the user who has just logged in over this connection."""
        if not self._user_attributes:
            return Entry(dn, {})
        await self._bind_as_service(connection)
        found = await connection.search(
            dn, EVERYTHING, self._user_attributes, scope=SearchScope.BASE
        )
        if not found:
            reader = self._layout.bind_dn or dn
            raise DirectoryFailed(f"{reader!r} may not read the entry of {dn!r}")
        return found[0]

    @property
    def _user_attributes(self) -> list[str]:
        layout = self._layout
        return [name for name in (layout.name_attribute, layout.groups_attribute) if name]

    def _principal(self, user: Entry, typed: str) -> str:
        attribute = self._layout.name_attribute
        if not attribute:
            return typed
        values = user.values(attribute)
        # An entry may have several names; the one that was meant is that which is the same but for
        # upper and lower case. With a single one there is no doubt.
        same = [value for value in values if value.casefold() == typed.casefold()]
        names = same or (values if len(values) == 1 else ())
        if not names or not names[0]:
            raise DirectoryFailed(f"{user.dn!r} has no {attribute} that is the name {typed!r}")
        return names[0]

    async def _groups(
        self, connection: DirectoryConnection, user: Entry, typed: str
    ) -> tuple[str, ...]:
        layout = self._layout
        names = [first_value(dn) for dn in user.values(layout.groups_attribute)]
        if layout.group_base is not None:
            assert layout.group_filter is not None
            await self._bind_as_service(connection)
            name = self._principal(user, typed)
            groups = await connection.search(
                layout.group_base,
                with_names(layout.group_filter, {USER: name, DN: user.dn}),
                [layout.group_name_attribute],
            )
            if len(groups) > _MAX_GROUPS:
                raise DirectoryFailed(f"{user.dn!r} is in too many groups, {len(groups)}")
            names += [
                value for group in groups for value in group.values(layout.group_name_attribute)
            ]
        return tuple(sorted({name for name in names if name}))

    async def _bind_as_service(self, connection: DirectoryConnection) -> None:
        layout = self._layout
        if not layout.bind_dn:
            return
        result = await connection.bind(layout.bind_dn, layout.bind_password)
        if result.result_code is not LDAPResultCode.SUCCESS:
            raise DirectoryFailed(f"the bind as {layout.bind_dn} failed: {described(result)}")
