"""The nodes of quotas, at Kafka's ZooKeeper paths.

    /config/users/USER                      a user; the user's credentials are there too
    /config/users/USER/clients/CLIENT-ID    a client id of a user
    /config/clients/CLIENT-ID               a client id
    /config/ips/ADDRESS                     an IP address

`<default>` in place of a name is the default of all that have no node of their own. It cannot be a
name, because names are written as in a URL.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import (
    CLIENT_CONFIGS,
    CLUSTER_DEFAULT,
    IP_CONFIGS,
    USER_CONFIGS,
    sanitized,
)
from odradek.security.quotas.entities import DEFAULT, QuotaEntity, quota_text, quotas_in

ROOTS: Final = (USER_CONFIGS + "/", CLIENT_CONFIGS + "/", IP_CONFIGS + "/")


def quota_path(entity: QuotaEntity) -> str:
    if entity.ip is not None:
        return f"{IP_CONFIGS}/{_node(entity.ip)}"
    if entity.user is None:
        assert entity.client_id is not None  # An entity names something.
        return f"{CLIENT_CONFIGS}/{_node(entity.client_id)}"
    path = f"{USER_CONFIGS}/{_node(entity.user)}"
    return path if entity.client_id is None else f"{path}/clients/{_node(entity.client_id)}"


def nodes_above(entity: QuotaEntity) -> list[str]:
    """Returns the parents that may be missing, the topmost first."""
    if entity.user is None or entity.client_id is None:
        return []
    user = f"{USER_CONFIGS}/{_node(entity.user)}"
    return [user, f"{user}/clients"]


def entity_of(path: str) -> QuotaEntity | None:
    """Returns whose node is at a path; None if it is only a parent of such nodes."""
    match path.split("/")[2:]:
        case ["users", user]:
            return QuotaEntity(user=_name(user))
        case ["users", user, "clients", client_id]:
            return QuotaEntity(user=_name(user), client_id=_name(client_id))
        case ["clients", client_id]:
            return QuotaEntity(client_id=_name(client_id))
        case ["ips", ip]:
            return QuotaEntity(ip=_name(ip))
    return None


def decode_quotas(path: str, value: bytes) -> dict[str, float]:
    """Returns the quotas of a node, without the credentials of a user. A node that was only made
    as a parent of others is empty."""
    return quotas_in(ConfigOverrides.decode(path, value).settings) if value else {}


def encode_quotas(quotas: Mapping[str, float]) -> bytes:
    return ConfigOverrides({key: quota_text(key, value) for key, value in quotas.items()}).encode()


def _node(name: str) -> str:
    return CLUSTER_DEFAULT if name == DEFAULT else sanitized(name)


def _name(node: str) -> str:
    return DEFAULT if node == CLUSTER_DEFAULT else unquote(node)
