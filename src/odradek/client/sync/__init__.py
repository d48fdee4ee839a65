"""The same clients for programs without asyncio.

    from odradek.client.sync import Consumer, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("clicks", b"value").result()      # a concurrent.futures.Future

Each client runs the asyncio one on a loop of its own, in a thread of its own. Calls may come
from any thread. Every method is written out, with the types of the asyncio client; a test compares
the two.
"""

from typing import TYPE_CHECKING

from odradek.client.habits import raise_for_import
from odradek.client.sync.admin import Admin
from odradek.client.sync.consumer import Consumer
from odradek.client.sync.loop_thread import Begun, LoopThread
from odradek.client.sync.producer import Producer

__all__ = ["Admin", "Begun", "Consumer", "LoopThread", "Producer"]

if not TYPE_CHECKING:  # with it, type checkers would take any name for right

    def __getattr__(name: str) -> object:
        raise_for_import(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
