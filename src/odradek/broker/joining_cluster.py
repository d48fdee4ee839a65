"""A broker that starts joins its cluster: it registers, takes part in the election of the
controller, and adopts logs that the store does not know.

The store may go away at any moment of that, for as long as a broker that runs would bear: its
session may expire meanwhile, and a registration whose reply was lost may have been written. So all
steps are repeated until the store answers, or for too long to wait. Each finds out by itself what
the last try has left.
"""

import asyncio
import logging
from typing import Final

from odradek.broker.components import Components
from odradek.broker.log_adoption import adopt_unknown_logs
from odradek.cluster.internal_topics import repair
from odradek.cluster.membership import PreviousRun
from odradek.config import BrokerSettings
from odradek.metadata import OutcomeUnknown, StoreUnavailable
from odradek.metadata.store import EVERYTHING
from odradek.protocol.types import BrokerId
from odradek.storage.text_files import NO_CLEAN_STOP
from odradek.world import World

logger = logging.getLogger("odradek.server")

_TRY_AGAIN_S: Final = 0.05


async def join_cluster(
    components: Components,
    broker_id: BrokerId,
    settings: BrokerSettings,
    world: World,
    *,
    patience_s: float,
    is_alone: bool,
) -> None:
    """Returns when the broker is registered. Raises `StoreUnavailable` or `OutcomeUnknown` if the
    store was away for `patience_s`, and `BrokerIdTaken` if another broker has the id for so long.

    `is_alone` says that no other broker uses the store."""
    services = components.services
    logs, cache, membership = services.logs, services.images.cache, components.membership
    previous = PreviousRun(logs.last_clean_stop, logs.killed_run or ())
    # If the start fails before the registration, the marker of the last clean stop stays true.
    logs.clean_stop = logs.last_clean_stop or NO_CLEAN_STOP
    await membership.reach_store(patience_s)
    while True:
        try:
            await cache.catch_up(EVERYTHING)
            logs.begin_run(await membership.join(previous, patience_s))
            await components.controller.elect()
            await adopt_unknown_logs(cache, logs, broker_id, world, settings, is_alone=is_alone)
            await repair(cache, services.configs)
            return
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("the metadata store went away during the registration: %s", error)
        # What this process knows of its logs, and which epochs it may have got since it began.
        previous = PreviousRun(logs.clean_stop, logs.noted_run or previous.killed_epochs)
        await asyncio.sleep(_TRY_AGAIN_S)
        await membership.reach_store(patience_s)
