"""The settings in force: the file's, under what the metadata store holds now."""

import logging
from collections.abc import Mapping

from odradek.config.broker_settings import BrokerSettings
from odradek.config.topic_settings import TopicSettings

logger = logging.getLogger("odradek.server")


class LiveSettings:
    """Replaced as a whole when the store says so; whoever keeps a part of it reads it again."""

    __slots__ = ("_told", "broker")

    def __init__(self, broker: BrokerSettings) -> None:
        self.broker = broker
        # What the operator was told about a topic's settings, by topic.
        self._told: dict[str, tuple[str, ...]] = {}

    def update(self, cluster_default: Mapping[str, str], this_broker: Mapping[str, str]) -> bool:
        """Puts the stored settings in force; False if they were so already."""
        layers = self.broker.layers
        if cluster_default == layers.dynamic_default and this_broker == layers.dynamic_broker:
            return False
        self.broker = self.broker.with_dynamic(cluster_default, this_broker)
        return True

    def topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        return self.broker.topic(overrides)

    def put_in_force(self, name: str, overrides: Mapping[str, str]) -> TopicSettings:
        """The settings of this topic, for its logs. Says once in the log what of them has no effect
        or cannot be used; until it changes, it is not said again."""
        settings = self.broker.topic(overrides)
        if settings.problems:
            if self._told.get(name) != settings.problems:
                self._told[name] = settings.problems
                for problem in settings.problems:
                    logger.warning("topic %s: %s", name, problem)
        elif self._told:
            self._told.pop(name, None)
        return settings
