"""Client settings: keyword arguments with Kafka's names in snake_case and Kafka's defaults.

`ProducerSettings(linger_ms=20)` in a program, `ProducerSettings.from_properties({"linger.ms":
"20"})` from a properties file or the command line; one declaration serves both.

The names below are imported when they are first used: an admin client needs no settings of
producers and consumers, nor the partitioners, assignors and serializers that these name.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

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

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
