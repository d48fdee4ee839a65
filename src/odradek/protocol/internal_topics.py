"""The names of the topics in which the coordinators keep their state."""

from typing import Final

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({GROUPS, TRANSACTIONS})
"""The internal topics of Odradek. Clients may read them, only brokers write them."""

KAFKA_INTERNAL_TOPICS: Final = INTERNAL_TOPICS | {"__share_group_state"}
"""The internal topics of Kafka, which has share groups too."""
