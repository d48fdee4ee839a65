"""Producer ids that no other producer ever had.

A broker takes a block of them from the metadata store by compare-and-set and gives them away
one by one. What is left of a block when the broker stops is lost, and nobody minds.
"""

import asyncio
from typing import Final

from odradek.cluster.availability import answering
from odradek.metadata import ImageKeeper
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.layout import PRODUCER_ID_BLOCK, ProducerIdBlock
from odradek.protocol.types import BrokerId, ProducerId

_BLOCK_SIZE: Final = 1000


class ProducerIds:
    def __init__(self, images: ImageKeeper, broker_id: BrokerId) -> None:
        self._images = images
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
        block = ProducerIdBlock(self._broker_id, 0, -1)

        def next_block(value: bytes | None) -> bytes:
            nonlocal block
            first = 0 if value is None else ProducerIdBlock.decode(value).last + 1
            block = ProducerIdBlock(self._broker_id, first, first + _BLOCK_SIZE - 1)
            return block.encode()

        # A block that may have been taken is not used: a stopped process of the same broker id
        # may have written the same.
        await change_node(self._images, PRODUCER_ID_BLOCK, next_block, is_own_if_equal=False)
        self._next, self._end = block.first, block.last + 1
