"""PLAIN (RFC 4616): the client sends its name and its password as they are.

So it belongs on TLS listeners. Who knows the passwords is a `PasswordChecker`: the users of a JAAS
line (`user_NAME="..."`), or a class that the operator names.
"""

import hmac
from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import Final, Protocol

from odradek.security.sasl.server.exchange import Login, LoginFailed, Step

_WRONG: Final = "Authentication failed: Invalid username or password"
_FOREIGN: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_USER: Final = "user_"
# Some passwords are tokens. Nobody makes a directory compare half a megabyte.
_MAX_MESSAGE_BYTES: Final = 64 * 1024


class PasswordChecker(Protocol):
    """Knows the passwords of users. A class in Python that `sasl.server.callback.handler.class`
    names is made with the options of the JAAS line."""

    def check(self, name: str, password: str) -> Login | Awaitable[Login | None] | None:
        """Returns who the user is, or None if the name or the password is wrong. A slow answer is
        awaited; it must not block. Raises `LoginFailed` if nobody can say."""
        ...


class JaasUsers:
    """The users of a JAAS line."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._passwords = {
            name[len(_USER) :]: password.encode()
            for name, password in options.items()
            if name.startswith(_USER)
        }

    def has(self, name: str) -> bool:
        return name in self._passwords

    def check(self, name: str, password: str) -> Login | None:
        known = self._passwords.get(name)
        # An unknown name takes as long as a wrong password.
        is_right = hmac.compare_digest(known or b"", password.encode())
        return Login(name) if is_right and known else None


class Plain:
    name = "PLAIN"

    def __init__(self, checker: PasswordChecker) -> None:
        self._checker = checker

    def begin(self) -> "PlainExchange":
        return PlainExchange(self._checker)

    def close(self) -> None: ...


class PlainExchange:
    def __init__(self, checker: PasswordChecker) -> None:
        self._checker = checker

    def respond(self, token: bytes) -> Step | Awaitable[Step]:
        if len(token) > _MAX_MESSAGE_BYTES:
            raise LoginFailed("the token of PLAIN is too long")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginFailed("the token of PLAIN is not UTF-8") from None
        if len(parts) != 3:
            raise LoginFailed(f"the token of PLAIN has {len(parts)} parts, not 3")
        authorization_id, name, password = parts
        # An LDAP server takes an empty password for an anonymous log-in, and accepts it.
        if not name or not password:
            raise LoginFailed("the name or the password is empty", user=name)
        found = self._checker.check(name, password)
        if isawaitable(found):
            return _later(authorization_id, name, found)
        return _step(authorization_id, name, found)


async def _later(authorization_id: str, name: str, found: Awaitable[Login | None]) -> Step:
    return _step(authorization_id, name, await found)


def _step(authorization_id: str, name: str, login: Login | None) -> Step:
    if login is None:
        raise LoginFailed("the name or the password is wrong", _WRONG, name)
    if authorization_id and authorization_id != name:
        raise LoginFailed("the client wants to be somebody else", _FOREIGN, name)
    return Step(b"", login)
