"""Stops on SIGTERM and Ctrl-C: the record at hand is finished, offsets are committed.

    python examples/stop_by_signal.py localhost:9092 orders

`wakeup` ends the loop after the current record. Leaving the block commits what was handled and
leaves the group, so the other members take over at once. `kill -9` could do neither: the others
would wait for session_timeout_ms.
"""

import asyncio
import signal
import sys

from odradek.client import Consumer


async def main(servers: str, topic: str) -> None:
    async with Consumer(
        topic, bootstrap_servers=servers, group_id=f"{topic}-stop", auto_offset_reset="earliest"
    ) as consumer:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, consumer.wakeup)
        async for record in consumer:
            print("handled", record.offset, flush=True)
    print("stopped", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(main(sys.argv[1], sys.argv[2]))
