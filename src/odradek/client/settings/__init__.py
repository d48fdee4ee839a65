"""Client settings: keyword arguments with Kafka's names in snake_case and Kafka's defaults.

`ProducerSettings(linger_ms=20)` in a program, `ProducerSettings.from_properties({"linger.ms":
"20"})` from a properties file or the command line; one declaration serves both.
"""

from odradek.client.settings.consumer import ConsumerSettings
from odradek.client.settings.producer import ProducerSettings
from odradek.client.settings.shared import AdminSettings, ClientSettings

__all__ = ["AdminSettings", "ClientSettings", "ConsumerSettings", "ProducerSettings"]
