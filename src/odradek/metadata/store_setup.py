"""Prepares a metadata store for its first broker: creates the parents of all other nodes."""

from typing import Final

from odradek.metadata.node_values import ClusterId
from odradek.metadata.paths import (
    BROKER_CONFIGS,
    BROKER_EPOCHS,
    BROKER_IDS,
    CLIENT_CONFIGS,
    CLUSTER_ID,
    CONTROLLER,
    DELETE_TOPICS,
    GROUP_CONFIGS,
    IP_CONFIGS,
    STORE_ID,
    TOPIC_CONFIGS,
    TOPICS,
    USER_CONFIGS,
)
from odradek.metadata.store import Create, MetadataError, MetadataStore, NodeExists

ROOTS: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    USER_CONFIGS,
    CLIENT_CONFIGS,
    IP_CONFIGS,
    "/admin",
    DELETE_TOPICS,
    "/odradek",
    BROKER_EPOCHS,
)


class ForeignCluster(MetadataError):
    """Live brokers of Apache Kafka use the store."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} shows that brokers of another system, Apache Kafka probably, use this metadata"
            " store. Odradek cannot be one of their brokers. Give it a path of its own, as in"
            " zookeeper.connect=host:2181/odradek"
        )


async def prepare_store(store: MetadataStore, cluster_id: str, store_id: str = "") -> str:
    """Creates the nodes that are the parents of all others. Returns the cluster id: `cluster_id` if
    the store is new. A store without an id of its own gets `store_id`.

    Raises `ForeignCluster` if Kafka's brokers are registered there: they would take this broker
    for one of theirs. Kafka's nodes without a live broker are used.
    """
    while True:
        tree = await store.read_tree("/")
        if "/odradek" not in tree:
            for path in tree:
                if path == CONTROLLER or path.startswith(f"{BROKER_IDS}/"):
                    raise ForeignCluster(path)
        missing = [Create(path) for path in ROOTS if path not in tree]
        if CLUSTER_ID not in tree:
            missing.append(Create(CLUSTER_ID, ClusterId(cluster_id).encode()))
        if store_id and STORE_ID not in tree:
            missing.append(Create(STORE_ID, store_id.encode()))
        if not missing:
            return ClusterId.decode(tree[CLUSTER_ID].value).id
        try:
            await store.multi(*missing)
        except NodeExists:
            # Another broker is preparing the same store.
            continue
