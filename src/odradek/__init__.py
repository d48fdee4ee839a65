"""Odradek: the Kafka protocol and platform in Python."""

from importlib import import_module

__version__ = "0.1.0"

_CLIENTS = frozenset({"Admin", "Consumer", "NewTopic", "Producer", "TopicPartition"})
_PACKAGES = frozenset({"client", "spark", "testing"})


def __getattr__(name: str) -> object:
    """Answers `from odradek import Producer` with the line to write: clients are not imported here,
    because every command would wait for them. `odradek.client` is, when it is first used."""
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name in _CLIENTS:
        raise ImportError(f"write `from odradek.client import {name}`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
