"""The paths of the metadata store's nodes. They are Kafka's ZooKeeper paths; those below `/odradek`
are our own. `node_values` says what the nodes hold.
"""

import base64
from typing import Final
from urllib.parse import quote, unquote

from odradek.protocol.types import TopicId

CLUSTER_DEFAULT: Final = "<default>"
"""Stands for a broker id where dynamic settings are meant for the whole cluster."""

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
USER_CONFIGS: Final = "/config/users"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DELETE_TOPICS: Final = "/admin/delete_topics"
BROKER_EPOCHS: Final = "/odradek/broker_epochs"
ID_NODE: Final = "id-"
"""How the name of the node at `topic_id_path` begins."""
STORE_ID: Final = "/odradek/store_id"
"""Tells one store from another that took its place, with the same cluster id perhaps."""


def broker_path(broker_id: int | str) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch_path(broker_id: int | str) -> str:
    """A node that outlives the broker: its version is the broker's epoch, set again with every
    registration, so that a `Check` of it lets in nobody who has restarted since. It holds
    `LogDirectories`."""
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_id_path(topic: str, topic_id: TopicId) -> str:
    """A node that is there as long as this topic is, and not for another topic of the same name:
    a `Check` of it binds a change to the topic's id. Topics that other versions, or Kafka, have
    made lack it."""
    return f"{TOPICS}/{topic}/{ID_NODE}{topic_id_text(topic_id)}"


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base 64."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: int | str) -> str:
    """`CLUSTER_DEFAULT` for the settings of all brokers."""
    return f"{BROKER_CONFIGS}/{broker}"


def group_config_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{_node_name(group_id)}"


def group_of_config_path(path: str) -> str:
    return unquote(path[len(GROUP_CONFIGS) + 1 :])


def user_config_path(user: str) -> str:
    """Where SCRAM credentials are kept, by the names of the mechanisms."""
    return f"{USER_CONFIGS}/{_node_name(user)}"


def user_of_config_path(path: str) -> str:
    return unquote(path[len(USER_CONFIGS) + 1 :])


def _node_name(name: str) -> str:
    """Groups and users are called what people like, with slashes and dots."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
