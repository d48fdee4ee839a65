"""The settings in force: the file's, under what the metadata store holds now."""

from collections.abc import Mapping

from odradek.config.broker_settings import BrokerSettings
from odradek.config.topic_settings import TopicSettings


class LiveSettings:
    """Replaced as a whole when the store says so; whoever keeps a part of it reads it again."""

    __slots__ = ("broker",)

    def __init__(self, broker: BrokerSettings) -> None:
        self.broker = broker

    def update(self, cluster_default: Mapping[str, str], this_broker: Mapping[str, str]) -> bool:
        """Puts the stored settings in force; False if they were so already."""
        layers = self.broker.layers
        if cluster_default == layers.dynamic_default and this_broker == layers.dynamic_broker:
            return False
        self.broker = self.broker.with_dynamic(cluster_default, this_broker)
        return True

    def topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        return self.broker.topic(overrides)
