"""Allocates producer ids that no other producer ever had.

A broker takes a block of ids from the metadata store by compare-and-set and allocates them one by
one. The rest of a block is not used when the broker stops; there are enough ids.

A metadata store that was lost, or restored from a backup, has forgotten which ids were allocated.
If an id were allocated again, the records of its new producer would be taken for duplicates of the
old producer's and dropped, or its transaction would be ended by the old one's. So a block always
lies above every id in the logs of this broker, and a broker that starts makes sure that the blocks
of the other brokers do too.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.node_values import ProducerIdBlock
from odradek.metadata.paths import PRODUCER_ID_BLOCK
from odradek.protocol.types import BrokerId, ProducerId
from odradek.storage import Log

logger = logging.getLogger("odradek.server")

_BLOCK_SIZE: Final = 1000
# More than the ids that were allocated but are in no log of this broker: their producers have not
# written yet, or only to other brokers. There are 2^63 ids.
_IDS_SKIPPED: Final = 1_000_000_000


def highest_id(logs: Iterable[Log]) -> int:
    """Returns the highest producer id in any of these logs; -1 if there is none."""
    return max((max(log.producers.entries, default=-1) for log in logs), default=-1)


async def start_above(cache: MetadataCache, broker_id: BrokerId, seen: int) -> None:
    """Makes sure that no broker gets a block with an id up to `seen`."""

    def raised(value: bytes | None) -> bytes | None:
        if seen <= _last_taken(value):
            return None
        first = seen + _IDS_SKIPPED
        return ProducerIdBlock(broker_id, first, first).encode()

    node = await cache.store.read(PRODUCER_ID_BLOCK)
    if seen > _last_taken(None if node is None else node.value):
        logger.warning(
            "the logs remember producer ids up to %d, which the metadata store does not know: it "
            "was lost or restored; new ids begin at %d",
            seen,
            seen + _IDS_SKIPPED + 1,
        )
        await change_node(cache, PRODUCER_ID_BLOCK, raised)


def _last_taken(value: bytes | None) -> int:
    return -1 if value is None else ProducerIdBlock.decode(value).last


class ProducerIds:
    """`seen` returns the highest id in the logs of this broker."""

    def __init__(
        self, cache: MetadataCache, broker_id: BrokerId, seen: Callable[[], int] = lambda: -1
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._seen = seen
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def next(self) -> ProducerId:
        if self._next == self._end:
            async with self._taking:
                if self._next == self._end:
                    with as_api_errors():
                        await self._take_block()
        producer_id = ProducerId(self._next)
        self._next += 1
        return producer_id

    async def _take_block(self) -> None:
        block = ProducerIdBlock(self._broker_id, 0, -1)
        # The store may have been replaced since this broker started.
        await start_above(self._cache, self._broker_id, max(self._seen(), self._end - 1))

        def next_block(value: bytes | None) -> bytes:
            nonlocal block
            first = _last_taken(value) + 1
            block = ProducerIdBlock(self._broker_id, first, first + _BLOCK_SIZE - 1)
            return block.encode()

        # After an unknown outcome the block is not used, even if the store holds it: another
        # process with the same broker id may have written the same.
        await change_node(self._cache, PRODUCER_ID_BLOCK, next_block, is_own_if_equal=False)
        self._next, self._end = block.first, block.last + 1
