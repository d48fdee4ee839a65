"""Our own asyncio client: connection, producer, consumer, admin.

It speaks to any Kafka broker. Names are imported when first used, so that a tool pays only for
what it needs:

    from odradek.client import Producer

`odradek.client.sync` has the same clients for programs without asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.accumulator import RecordMetadata
    from odradek.client.connection import Connection
    from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings

_HOMES = {
    "AdminSettings": "settings",
    "Connection": "connection",
    "ConsumerSettings": "settings",
    "ProducerSettings": "settings",
    "RecordMetadata": "accumulator",
}

__all__ = ["AdminSettings", "Connection", "ConsumerSettings", "ProducerSettings", "RecordMetadata"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
