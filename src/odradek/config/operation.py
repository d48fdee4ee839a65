"""The operations of IncrementalAlterConfigs, which the broker applies and the admin client sends.

The enum has a module of its own because clients need it without the settings of brokers.
"""

from enum import IntEnum


class ConfigOperation(IntEnum):
    """What happens to a setting (Kafka: AlterConfigOp.OpType); the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
