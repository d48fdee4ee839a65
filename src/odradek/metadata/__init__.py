"""What the cluster agrees on, and each broker's picture of it.

`store` is the interface. `memory` and `sqlite` implement it on the one `tree`; `service` lets the
brokers of a machine share a `sqlite` store, which they see through `remote`; `zookeeper` is an
ensemble. `layout` says which paths and values there are; `image` is the picture, and `keeper`
keeps it current.
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
