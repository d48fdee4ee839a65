"""Which quota applies to a request: Kafka's eight levels of precedence.

A client is a user with a client id. Of the quotas that fit, the first of this list applies:

    1  the user and the client id          shared by   that user with that client id
    2  the user, any client id                         that user with that client id
    3  the user                                        all client ids of that user
    4  any user, the client id                         that user with that client id
    5  any user, any client id                         that user with that client id
    6  any user                                        all client ids of that user
    7  the client id                                   all users with that client id
    8  any client id                                   all users with that client id

Each kind of quota is looked up on its own: a user may have a limit for producing at level 1, and
one for consuming at level 8.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.security.quotas.entities import DEFAULT, QuotaEntity


class Limit(NamedTuple):
    """A limit, and who shares it: requests with the same user and client id here draw on the same
    allowance. A part that is None does not matter."""

    value: float
    user: str | None
    client_id: str | None


class QuotaRules:
    """The quotas of one kind, such as `producer_byte_rate`."""

    __slots__ = ("_by_client", "_by_ip", "is_empty")

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        self._by_client: dict[tuple[str | None, str | None], float] = {}
        self._by_ip: dict[str, float] = {}
        for entity, values in quotas.items():
            if key not in values:
                continue
            if entity.ip is None:
                self._by_client[entity.user, entity.client_id] = values[key]
            else:
                self._by_ip[entity.ip] = values[key]
        self.is_empty = not (self._by_client or self._by_ip)

    def limit(self, user: str, client_id: str) -> Limit | None:
        """Returns the limit of a client; None if it has none."""
        by_client = self._by_client
        if not by_client:
            return None
        for named_user, named_client, is_by_user, is_by_client in _LEVELS:
            value = by_client.get(
                (
                    user if named_user is _NAMED else named_user,
                    client_id if named_client is _NAMED else named_client,
                )
            )
            if value is not None:
                return Limit(
                    value, user if is_by_user else None, client_id if is_by_client else None
                )
        return None

    def limit_of_address(self, address: str) -> float | None:
        """Returns the limit of an IP address; None if it has none."""
        by_ip = self._by_ip
        if not by_ip:
            return None
        value = by_ip.get(address)
        return by_ip.get(DEFAULT) if value is None else value


_NAMED: Final = "\0"
# Whose quota a level is: the user and the client id, each named, the default, or not given. Then
# whether users share it, and whether client ids do.
_LEVELS: Final[tuple[tuple[str | None, str | None, bool, bool], ...]] = (
    (_NAMED, _NAMED, True, True),
    (_NAMED, DEFAULT, True, True),
    (_NAMED, None, True, False),
    (DEFAULT, _NAMED, True, True),
    (DEFAULT, DEFAULT, True, True),
    (DEFAULT, None, True, False),
    (None, _NAMED, False, True),
    (None, DEFAULT, False, True),
)
