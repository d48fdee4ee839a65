"""Producer ids that no other producer ever had.

A broker takes a block of them from the metadata store by compare-and-set and gives them away
one by one. What is left of a block when the broker stops is lost, and nobody minds.
"""

import asyncio
from typing import Final

from odradek.cluster.availability import answering
from odradek.metadata.layout import PRODUCER_ID_BLOCK, ProducerIdBlock
from odradek.metadata.store import (
    BadVersion,
    Create,
    MetadataStore,
    NodeExists,
    OutcomeUnknown,
    Set,
)
from odradek.protocol.types import BrokerId, ProducerId

_BLOCK_SIZE: Final = 1000


class ProducerIds:
    def __init__(self, store: MetadataStore, broker_id: BrokerId) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def next(self) -> ProducerId:
        if self._next == self._end:
            async with self._taking:
                if self._next == self._end:
                    with answering():
                        await self._take_block()
        producer_id = ProducerId(self._next)
        self._next += 1
        return producer_id

    async def _take_block(self) -> None:
        while True:
            node = await self._store.read(PRODUCER_ID_BLOCK)
            first = 0 if node is None else ProducerIdBlock.decode(node.value).last + 1
            block = ProducerIdBlock(self._broker_id, first, first + _BLOCK_SIZE - 1).encode()
            try:
                if node is None:
                    await self._store.multi(Create(PRODUCER_ID_BLOCK, block))
                else:
                    await self._store.multi(Set(PRODUCER_ID_BLOCK, block, node.version))
            except (BadVersion, NodeExists, OutcomeUnknown):
                # Another broker was faster, or we may have been: the next block is nobody's.
                continue
            self._next, self._end = first, first + _BLOCK_SIZE
            return
