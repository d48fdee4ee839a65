"""The current settings of a broker: those of the file, overridden by those of the store."""

import logging
from collections.abc import Mapping

from odradek.config.broker_settings import BrokerSettings
from odradek.config.topic_settings import TopicSettings

logger = logging.getLogger("odradek.server")


class LiveSettings:
    """Holds the current `BrokerSettings`, which are replaced as a whole when the store changes.

    A component that keeps a single value must read it again after a change.
    """

    __slots__ = ("_logged_problems", "broker")

    def __init__(self, broker: BrokerSettings) -> None:
        self.broker = broker
        # The problems of each topic's settings that are in the log already.
        self._logged_problems: dict[str, tuple[str, ...]] = {}

    def update(self, cluster_default: Mapping[str, str], this_broker: Mapping[str, str]) -> bool:
        """Applies the stored settings; returns False if they have not changed."""
        layers = self.broker.layers
        if cluster_default == layers.dynamic_default and this_broker == layers.dynamic_broker:
            return False
        self.broker = self.broker.with_dynamic(cluster_default, this_broker)
        return True

    def topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        return self.broker.topic(overrides)

    def put_in_force(self, name: str, overrides: Mapping[str, str]) -> TopicSettings:
        """Returns the settings of a topic, for its partitions.

        Overrides without effect or with unusable values are logged once, until they change.
        """
        settings = self.broker.topic(overrides)
        if settings.problems:
            if self._logged_problems.get(name) != settings.problems:
                self._logged_problems[name] = settings.problems
                for problem in settings.problems:
                    logger.warning("topic %s: %s", name, problem)
        elif self._logged_problems:
            self._logged_problems.pop(name, None)
        return settings
