"""How a broker joins its cluster: it registers, takes the controller's seat, and leads.

One broker is the whole cluster today, so it also elects itself leader of every partition it
finds, each with the next leader epoch: a reader that saw the tail which a crash took away
can tell from the epoch that what stands there now is something else.
"""

from collections.abc import Mapping

from odradek.metadata.layout import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPICS,
    BrokerRegistration,
    Controller,
    PartitionState,
    broker_path,
    decode_controller_epoch,
    encode_controller_epoch,
)
from odradek.metadata.store import Create, MetadataStore, Node, NodeExists, Operation, Set
from odradek.protocol.types import BrokerId, LeaderEpoch


class BrokerIdTaken(Exception):
    """A live broker has registered under this id."""


async def register(
    store: MetadataStore, broker_id: BrokerId, registration: BrokerRegistration
) -> None:
    """Makes the broker known for as long as its session lives."""
    try:
        await store.multi(Create(broker_path(broker_id), registration.encode(), ephemeral=True))
    except NodeExists:
        raise BrokerIdTaken(
            f"a broker with the id {broker_id} is running already; give this one another node.id"
        ) from None


async def become_controller(store: MetadataStore, broker_id: BrokerId, now_ms: int) -> int:
    """Takes the seat and returns the controller epoch, one higher than any before."""
    seat = Create(CONTROLLER, Controller(broker_id, now_ms).encode(), ephemeral=True)
    node = await store.read(CONTROLLER_EPOCH)
    if node is None:
        await store.multi(seat, Create(CONTROLLER_EPOCH, encode_controller_epoch(1)))
        return 1
    epoch = decode_controller_epoch(node.value) + 1
    await store.multi(seat, Set(CONTROLLER_EPOCH, encode_controller_epoch(epoch), node.version))
    return epoch


async def lead_everything(store: MetadataStore, broker_id: BrokerId, controller_epoch: int) -> int:
    """Elects this broker for every partition it holds a replica of; returns how many."""
    operations = _elections(await store.read_tree(TOPICS), broker_id, controller_epoch)
    if operations:
        await store.multi(*operations)
    return len(operations)


def _elections(
    tree: Mapping[str, Node], broker_id: BrokerId, controller_epoch: int
) -> list[Operation]:
    operations: list[Operation] = []
    for path, node in tree.items():
        if not path.endswith("/state"):
            continue
        state = PartitionState.decode(path, node.value)
        if broker_id not in state.isr:
            continue
        elected = PartitionState(
            broker_id, LeaderEpoch(state.leader_epoch + 1), state.isr, controller_epoch
        )
        operations.append(Set(path, elected.encode(), node.version))
    return operations
