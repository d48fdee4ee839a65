"""Who has a quota, and which quotas there are: Kafka's names, kinds and rules.

A quota belongs to a user, a client id, a client id of a user, or an IP address. In place of a name
a quota may be the default of all users, client ids or addresses without one of their own.
"""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

DEFAULT: Final = ""
"""Takes the place of a name in a quota that is the default. No user, client id or address that has
a quota of its own has an empty name."""


class QuotaEntity(NamedTuple):
    """Whose quota it is. A part that does not matter is None, and `DEFAULT` stands for all who
    have no quota of their own. An address never goes with a user or a client id."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class EntityType(Enum):
    """The parts of an entity, with their names in the protocol."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class InvalidQuota(ValueError):
    """An entity or a quota that cannot be; the message is for the operator."""


class QuotaKey(NamedTuple):
    """A quota as users name it. `is_whole` ones take no fractions."""

    name: str
    is_whole: bool
    is_of_address: bool
    max_value: float
    doc: str


_MAX_LONG: Final = float(2**63 - 1)
_MAX_INT: Final = float(2**31 - 1)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    key.name: key
    for key in (
        QuotaKey(
            PRODUCER_BYTE_RATE,
            is_whole=True,
            is_of_address=False,
            max_value=_MAX_LONG,
            doc="bytes of Produce requests a second",
        ),
        QuotaKey(
            CONSUMER_BYTE_RATE,
            is_whole=True,
            is_of_address=False,
            max_value=_MAX_LONG,
            doc="bytes of Fetch responses a second",
        ),
        QuotaKey(
            REQUEST_PERCENTAGE,
            is_whole=False,
            is_of_address=False,
            max_value=math.inf,
            doc="percent of the time of the broker's event loop",
        ),
        QuotaKey(
            CONTROLLER_MUTATION_RATE,
            is_whole=False,
            is_of_address=False,
            max_value=math.inf,
            doc="partitions created or deleted a second",
        ),
        QuotaKey(
            CONNECTION_CREATION_RATE,
            is_whole=True,
            is_of_address=True,
            max_value=_MAX_INT,
            doc="new connections a second from one IP address",
        ),
    )
}
"""The quotas that there are, by name."""


def make_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """Returns the entity of a request, which names types and names; None is the default. Raises
    `InvalidQuota`."""
    if not parts:
        raise InvalidQuota("a quota needs a user, a client-id or an ip")
    known = {kind.value for kind in EntityType}
    for kind, name in parts.items():
        if kind not in known:
            raise InvalidQuota(f"{kind!r} has no quotas; name a user, a client-id or an ip")
        if name is not None and not name:
            raise InvalidQuota(f"the name of a {kind} is empty; leave it out for the default")
    if EntityType.IP.value in parts and len(parts) > 1:
        raise InvalidQuota("a quota of an ip cannot name a user or a client-id too")

    def part(kind: EntityType) -> str | None:
        if kind.value not in parts:
            return None
        return parts[kind.value] or DEFAULT

    entity = QuotaEntity(part(EntityType.USER), part(EntityType.CLIENT_ID), part(EntityType.IP))
    if entity.ip:
        return entity._replace(ip=_address(entity.ip))
    return entity


def parts_of(entity: QuotaEntity) -> dict[str, str | None]:
    """Returns the types and names of an entity as the protocol has them; None is the default."""
    return {
        kind.value: name or None
        for kind, name in zip(EntityType, entity, strict=True)
        if name is not None
    }


def check_quota(entity: QuotaEntity, name: str, value: float | None) -> None:
    """Raises `InvalidQuota` if the entity cannot have this quota. `value` is None if the quota is
    to be removed."""
    key = QUOTA_KEYS.get(name)
    of_address = entity.ip is not None
    if key is None or key.is_of_address is not of_address:
        possible = [one.name for one in QUOTA_KEYS.values() if one.is_of_address is of_address]
        whose = "an ip" if of_address else "a user or a client-id"
        raise InvalidQuota(f"{whose} has no quota {name!r}; there is {', '.join(possible)}")
    if value is None:
        return
    if not value > 0 or math.isinf(value):
        raise InvalidQuota(f"{name} must be greater than 0; remove it for no limit")
    if value > key.max_value:
        raise InvalidQuota(f"{name} is at most {key.max_value:.0f}")
    if key.is_whole and abs(value - round(value)) > 1e-6:
        raise InvalidQuota(f"{name} must be a whole number")


def quota_text(name: str, value: float) -> str:
    """Returns the value of a quota as the metadata store has it."""
    return str(round(value)) if QUOTA_KEYS[name].is_whole else str(value)


def quotas_in(settings: Mapping[str, str]) -> dict[str, float]:
    """Returns the quotas among the settings of an entity: a user has credentials there too. A
    value that is no quota was written by hand, and is left out."""
    quotas: dict[str, float] = {}
    for name, text in settings.items():
        if name not in QUOTA_KEYS:
            continue
        try:
            value = float(text)
        except ValueError:
            continue
        if value > 0 and not math.isinf(value):
            quotas[name] = value
    return quotas


def _address(text: str) -> str:
    from ipaddress import ip_address  # noqa: PLC0415 - the start of a broker does without it

    try:
        return str(ip_address(text))
    except ValueError:
        raise InvalidQuota(
            f"{text!r} is not an IP address; write it as in 192.0.2.7 or 2001:db8::7"
        ) from None
