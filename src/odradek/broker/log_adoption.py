"""Adopts logs at the start of a broker that the metadata store does not know.

A store that was lost, restored from a backup, or created for the log directories of a Kafka broker
does not know the topics in them, nor which producer ids were assigned. First the broker makes sure
that no producer id is assigned again, then the topics are adopted (`odradek.cluster.adoption`).

The ids of producers that wrote lately are in the producer state of the logs. Those of transactional
ids are remembered for longer, and before the first record of a transaction they are in the
transaction log only. So that log is read here, if it is to be adopted.
"""

import logging
from collections.abc import Iterable
from typing import Final

from odradek.cluster.internal_settings import TRANSACTIONS
from odradek.cluster.producer_ids import highest_id, start_above
from odradek.config import BrokerSettings
from odradek.metadata import MetadataCache
from odradek.protocol.records import MalformedRecords, decode_records, split_batches
from odradek.protocol.types import BrokerId
from odradek.storage import Log, LogManager
from odradek.wording import counted
from odradek.world import World
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.server")

_READ_BYTES: Final = 1 << 20
# How many topics the log message names.
_MAX_NAMED: Final = 10


async def adopt_unknown_logs(
    images: MetadataCache,
    logs: LogManager,
    broker_id: BrokerId,
    world: World,
    settings: BrokerSettings,
    *,
    is_alone: bool,
) -> None:
    """Called before this broker takes up any role, so that no client can produce to the topics
    yet."""
    store_id = images.image.store_id
    unknown = [log for log in logs.logs.values() if log.directory.store_id != store_id]
    seen = highest_id(logs.logs.values())
    if unknown:
        seen = max(seen, await highest_transactional_id(unknown))
    await start_above(images, broker_id, seen)
    if not unknown:
        return
    from odradek.cluster.adoption import adopt  # noqa: PLC0415 - seldom needed

    adopted = await adopt(images, unknown, broker_id, world.randomness, settings, is_alone=is_alone)
    if adopted:
        logger.warning(
            "adopted %s found in the log directories, with retention switched off because "
            "their settings are not known: %s",
            counted(len(adopted), "topic"),
            ", ".join(adopted[:_MAX_NAMED]) + (" ..." if adopted[_MAX_NAMED:] else ""),
        )


async def highest_transactional_id(logs: Iterable[Log]) -> int:
    """Returns the highest producer id that any transactional id in these logs has, had before or
    will have next; -1 if there is none. Logs of other topics than `__transaction_state` are
    skipped."""
    timeslice = Timeslice.of_running_loop()
    highest = -1
    for log in logs:
        if log.topic_partition.topic != TRANSACTIONS:
            continue
        offset = log.log_start_offset
        while (found := log.read(offset, _READ_BYTES)) is not None:
            data = found.read(0, len(found))
            found.release()
            for position, header in split_batches(data):
                if timeslice.is_over():
                    await timeslice.next_turn()
                offset = header.next_offset
                try:
                    highest = max(highest, _highest_in(data, position))
                except MalformedRecords as error:
                    logger.error(
                        "%s: the batch at offset %d is passed over: %s",
                        log.path,
                        header.base_offset,
                        error,
                    )
    return highest


def _highest_in(data: bytes, position: int) -> int:
    from odradek.transactions.records import read_key, read_value  # noqa: PLC0415 - seldom needed

    highest = -1
    for record in decode_records(data, position):
        transactional_id = None if record.key is None else read_key(record.key)
        if transactional_id is None or record.value is None:
            continue
        transaction = read_value(transactional_id, record.value)
        if transaction is not None:
            highest = max(
                highest,
                transaction.producer_id,
                transaction.previous_producer_id,
                transaction.next_producer_id,
            )
    return highest
