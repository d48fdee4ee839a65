"""The paths of the metadata store's nodes. They are Kafka's ZooKeeper paths; those below `/odradek`
are our own. `node_values` says what the nodes hold.
"""

import base64
from typing import Final
from urllib.parse import quote, unquote

from odradek.protocol.types import TopicId

CLUSTER_DEFAULT: Final = "<default>"
"""Takes the place of a broker id for dynamic settings of the whole cluster."""

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
CLIENT_METRICS_CONFIGS: Final = "/config/client-metrics"
USER_CONFIGS: Final = "/config/users"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DELETE_TOPICS: Final = "/admin/delete_topics"
BROKER_EPOCHS: Final = "/odradek/broker_epochs"
ID_NODE: Final = "id-"
"""The prefix of the name of the node at `topic_id_path`."""
STORE_ID: Final = "/odradek/store_id"
"""An id of the store itself: a store that replaces a lost one may have the same cluster id."""


def broker_path(broker_id: int | str) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch_path(broker_id: int | str) -> str:
    """A node that outlives the broker. Its version is the broker epoch, because every registration
    sets it: a `Check` of the version fails if the broker has restarted since. It holds
    `LastRegistration`."""
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_id_path(topic: str, topic_id: TopicId) -> str:
    """A node that exists as long as the topic with this id: a `Check` of it binds a change to this
    topic, and not to another one of the same name. Topics that Kafka or other versions created
    lack it."""
    return f"{TOPICS}/{topic}/{ID_NODE}{topic_id_text(topic_id)}"


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base 64."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: int | str) -> str:
    """`broker` is `CLUSTER_DEFAULT` for the settings of all brokers."""
    return f"{BROKER_CONFIGS}/{broker}"


def group_config_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{node_name(group_id)}"


def group_of_config_path(path: str) -> str:
    return node_name_meant(path[len(GROUP_CONFIGS) + 1 :])


def client_metrics_config_path(subscription: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{node_name(subscription)}"


def subscription_of_config_path(path: str) -> str:
    return node_name_meant(path[len(CLIENT_METRICS_CONFIGS) + 1 :])


def user_config_path(user: str) -> str:
    """The node with the SCRAM credentials of a user, by mechanism."""
    return f"{USER_CONFIGS}/{node_name(user)}"


def user_of_config_path(path: str) -> str:
    return node_name_meant(path[len(USER_CONFIGS) + 1 :])


def node_name(name: str) -> str:
    """Quotes the name of a group, a user, a principal or a subscription, which may have slashes and
    dots."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def node_name_meant(quoted: str) -> str:
    """Returns the name that `node_name` has quoted."""
    return unquote(quoted)
