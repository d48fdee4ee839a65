"""Who may read and change a node in ZooKeeper, with `zookeeper.set.acl=true`: Kafka's rules.

A node belongs to whoever made it (`auth` stands for all identities of the connection: the user of
the SASL log-in, or the subject of a TLS certificate), who may do everything. Everybody may read
it, except for nodes with secrets and below: the passwords of users, the settings of brokers, and
delegation tokens. Without the setting everybody may do everything with every node, so the ensemble
must not be reachable for others.
"""

from typing import Final

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from odradek.metadata.delegation_token_nodes import TOKENS
from odradek.metadata.paths import BROKER_CONFIGS, USER_CONFIGS

SECRET_ROOTS: Final = (USER_CONFIGS, BROKER_CONFIGS, TOKENS)
"""Paths, without the chroot, of which only brokers may read anything. As in Kafka a path that
begins like one of them counts too."""

SECURED_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
    "/odradek",
)
"""What belongs to the brokers: Kafka's nodes, and our own."""


def acl_of(path: str, is_secure: bool) -> list[ACL]:
    """Returns the ACL of a node; `path` is without the chroot."""
    if not is_secure:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(SECRET_ROOTS):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
