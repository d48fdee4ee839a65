"""The metadata that the brokers of a cluster share, and each broker's image of it.

- `store` is the interface of the metadata store. `memory` and `sqlite` implement it on the same
  `tree`; `service` lets the brokers of one machine share a `sqlite` store, which they reach through
  `remote`; `zookeeper` uses an ensemble.
- `paths` and `node_values` say which nodes there are and what they hold; `store_setup` and
  `topic_operations` write several of them at once; `compare_and_set` is the way to change them.
- `image` is what a broker knows about its cluster, built by `image_builder`; `cache` keeps it
  current.
"""

from odradek.metadata.cache import MetadataCache
from odradek.metadata.image import (
    BrokerImage,
    ClusterImage,
    ImageChange,
    PartitionImage,
    TopicImage,
)
from odradek.metadata.store import (
    ANY_VERSION,
    BadVersion,
    ChangeTooBig,
    Check,
    Create,
    Delete,
    Metadata,
    MetadataError,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    SessionExpired,
    Set,
    StoreUnavailable,
    Watch,
)

__all__ = [
    "ANY_VERSION",
    "BadVersion",
    "BrokerImage",
    "ChangeTooBig",
    "Check",
    "ClusterImage",
    "Create",
    "Delete",
    "ImageChange",
    "Metadata",
    "MetadataCache",
    "MetadataError",
    "MetadataStore",
    "NoNode",
    "Node",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "OperationFailed",
    "OutcomeUnknown",
    "PartitionImage",
    "SessionExpired",
    "Set",
    "StoreUnavailable",
    "TopicImage",
    "Watch",
]
