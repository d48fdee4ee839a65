"""The operations that exist for each type of resource, as sets of bits (KIP-430).

A response contains the operations that the client may do, if the request asks for them. Without an
authorizer these are all.
"""

from typing import Final

from odradek.protocol.acls import Operation


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


# In responses to requests that did not ask.
NO_OPERATIONS: Final = -(2**31)
GROUP_OPERATIONS: Final = _bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
TOPIC_OPERATIONS: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
