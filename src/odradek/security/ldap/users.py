"""The users of a directory, as PLAIN checks their passwords: so many at a time, and no longer than
a time limit.

The log-ins of clients wait for a slow directory; nothing else does. Those that cannot begin at once
wait for their turn in the order in which they came. When too many wait, the next is refused at
once, so that a directory that hangs costs no more memory than that.
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.security.ldap.connection import DirectoryFailed
from odradek.security.ldap.directory import Directory
from odradek.security.sasl.server.exchange import Login, LoginFailed
from odradek.security.sasl.server.plain import JaasUsers

_MAX_REMEMBERED: Final = 10_000


class Limits(NamedTuple):
    timeout_s: float
    max_connections: int
    max_waiting: int
    cache_s: float


class DirectoryUsers:
    """A `PasswordChecker`. Users of the JAAS line are checked there alone, so that brokers and an
    administrator can log in while the directory is down."""

    def __init__(
        self,
        directory: Directory,
        local_users: JaasUsers,
        limits: Limits,
        secret: bytes,
        monotonic_s: Callable[[], float],
    ) -> None:
        """`secret` are random bytes."""
        self._directory = directory
        self._local_users = local_users
        self._limits = limits
        self._secret = secret
        self._monotonic_s = monotonic_s
        self._turn = asyncio.Semaphore(limits.max_connections)
        self._asking = 0
        # By a keyed hash of name and password, so that no password stays in memory.
        self._remembered: OrderedDict[bytes, tuple[float, Login | None]] = OrderedDict()

    async def check(self, name: str, password: str) -> Login | None:
        """Raises `LoginFailed` if the directory cannot say."""
        if self._local_users.has(name):
            return self._local_users.check(name, password)
        key = b""
        if self._limits.cache_s:
            digest = hmac.digest(self._secret, name.encode(), "sha256")
            key = hmac.digest(digest, password.encode(), "sha256")
            expires_s, known = self._remembered.get(key, (0.0, None))
            if expires_s > self._monotonic_s():
                return known
        login = await self._ask(name, password)
        if self._limits.cache_s:
            self._remembered[key] = (self._monotonic_s() + self._limits.cache_s, login)
            self._remembered.move_to_end(key)
            if len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        return login

    async def _ask(self, name: str, password: str) -> Login | None:
        limits = self._limits
        if self._asking >= limits.max_connections + limits.max_waiting:
            raise LoginFailed("too many log-ins wait for the directory", user=name)
        self._asking += 1
        try:
            async with asyncio.timeout(limits.timeout_s), self._turn:
                member = await self._directory.log_in(name, password)
        except TimeoutError:
            reason = f"the directory did not answer within {limits.timeout_s:g} s"
            raise LoginFailed(reason, user=name) from None
        except DirectoryFailed as error:
            raise LoginFailed(f"the directory cannot say: {error}", user=name) from None
        finally:
            self._asking -= 1
        if member is None:
            return None
        if self._local_users.has(member.name):
            # The name was typed in another way, such as ADMIN for the local user admin.
            raise LoginFailed(f"{member.name!r} is a user of the JAAS line", user=name)
        return Login(member.name, groups=member.groups)
