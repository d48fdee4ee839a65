"""Features of the cluster that ApiVersions tells: what is supported, and what is in force.

`transaction.version` 2 is transactions with an epoch for each (KIP-890): clients that see it in
force leave out AddPartitionsToTxn and expect the next epoch from EndTxn.

`group.version` 1 is the new consumer protocol (KIP-848): clients that see it in force may use
ConsumerGroupHeartbeat.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    in_force: int


FEATURES: Final = {
    "group.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}

# Clients take what is in force from the broker with the highest epoch; below 0 it is unknown.
EPOCH: Final = 1
