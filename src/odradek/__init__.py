"""Odradek: the Kafka protocol and platform in Python."""

__version__ = "0.1.0"

_CLIENTS = frozenset({"Admin", "Consumer", "NewTopic", "Producer", "TopicPartition"})


def __getattr__(name: str) -> object:
    """Answers `from odradek import Producer` with the line to write: clients are not imported here,
    because every command would wait for them."""
    if name in _CLIENTS:
        raise ImportError(f"write `from odradek.client import {name}`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
