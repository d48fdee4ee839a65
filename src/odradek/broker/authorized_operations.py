"""What clients may do with a resource, as a set of bits: without an authoriser, everything.

Answers carry them where a client asked for its authorised operations.
"""

from typing import Final

from odradek.protocol.acls import Operation


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


# What is told to whoever did not ask.
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
