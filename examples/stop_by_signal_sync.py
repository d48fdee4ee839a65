"""Stops on SIGTERM and Ctrl-C, without asyncio; see `stop_by_signal.py`.

python examples/stop_by_signal_sync.py localhost:9092 orders
"""

import signal
import sys

from odradek.client.sync import Consumer


def main(servers: str, topic: str) -> None:
    with Consumer(
        topic, bootstrap_servers=servers, group_id=f"{topic}-stop", auto_offset_reset="earliest"
    ) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.wakeup())
        for record in consumer:
            print("handled", record.offset, flush=True)
    print("stopped", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    main(sys.argv[1], sys.argv[2])
