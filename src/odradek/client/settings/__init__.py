"""Client settings: keyword arguments with Kafka's names in snake_case and Kafka's defaults.

`ProducerSettings(linger_ms=20)` in a program, `ProducerSettings.from_properties({"linger.ms":
"20"})` from a properties file or the command line; one declaration serves both.

The names below are imported when they are first used: an admin client needs no settings of
producers and consumers, nor the partitioners, assignors and serializers that these name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.settings.consumer import ConsumerSettings
    from odradek.client.settings.producer import ProducerSettings
    from odradek.client.settings.shared import AdminSettings, ClientSettings

_HOMES = {
    "AdminSettings": "odradek.client.settings.shared",
    "ClientSettings": "odradek.client.settings.shared",
    "ConsumerSettings": "odradek.client.settings.consumer",
    "ProducerSettings": "odradek.client.settings.producer",
}

__all__ = ["AdminSettings", "ClientSettings", "ConsumerSettings", "ProducerSettings"]


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
