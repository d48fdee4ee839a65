"""A store of the recipe `selfies`: `python -m odradek.recipes.selfie_store SERVERS NAME`.

It is a process of its own, so that it can burn down. It takes selfies as a member of the group
`stores`, makes something of each, and then commits. If it dies in between, another store makes
these things again: nothing is lost, a few things are made twice.
"""

import asyncio
import json
import logging
import sys
from typing import Final

from odradek.client import Consumer, Producer

SELFIES: Final = "selfies"
MERCHANDISE: Final = "merchandise"
GROUP: Final = "stores"
_THINGS: Final = ("mug", "T-shirt", "poster", "pillow")
# So that a store is busy when it burns.
_WORK_S: Final = 0.01


async def keep_store(servers: str, name: str) -> None:
    async with (
        Consumer(
            SELFIES,
            bootstrap_servers=servers,
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=2_000,
            heartbeat_interval_ms=300,
            max_poll_records=8,
        ) as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        while True:
            for records in (await consumer.poll(timeout_ms=1_000)).values():
                for record in records:
                    selfie = json.loads(record.value)["number"]
                    await asyncio.sleep(_WORK_S)
                    made = {"store": name, "selfie": selfie, "thing": _THINGS[selfie % 4]}
                    await producer.send_and_wait(MERCHANDISE, json.dumps(made).encode())
            await consumer.commit()


if __name__ == "__main__":
    # The recipe kills a broker on purpose; that it cannot be reached is no news.
    logging.getLogger("odradek.client").setLevel(logging.ERROR)
    asyncio.run(keep_store(sys.argv[1], sys.argv[2]))
