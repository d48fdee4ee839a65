"""The features of the cluster in ApiVersions (KIP-584): which versions this broker supports, and
which version is finalized for all clients.

`transaction.version` 2 bumps the producer epoch with each transaction (KIP-890): clients that see
it leave out AddPartitionsToTxn and take the next epoch from EndTxn.

`group.version` 1 is the new consumer protocol (KIP-848): clients that see it may use
ConsumerGroupHeartbeat.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    min_version: int
    max_version: int
    finalized_version: int


FEATURES: Final = {
    "group.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}

# Clients take the finalized versions from the broker with the highest epoch. -1 means unknown.
FINALIZED_EPOCH: Final = 1
