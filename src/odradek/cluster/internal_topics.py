"""The topics in which coordinators keep their state. They are created when they are first needed,
and repaired when a broker starts."""

import logging
from collections.abc import Callable, Mapping

from odradek.cluster.configs import Configs
from odradek.cluster.internal_settings import (
    GROUPS,
    INTERNAL_TOPICS,
    TRANSACTIONS,
    replication_factor_setting,
)
from odradek.cluster.topics import NewTopic, Topics
from odradek.metadata import MetadataCache
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.log_lines import LogLines
from odradek.statemachine.machine import LogLine

__all__ = ["GROUPS", "INTERNAL_TOPICS", "TRANSACTIONS", "InternalTopics", "repair"]

logger = logging.getLogger("odradek.server")


class InternalTopics:
    """Creates the internal topics. Handlers call `ensure_exists` before they look for a
    coordinator."""

    def __init__(
        self, topics: Topics, cache: MetadataCache, monotonic_s: Callable[[], float]
    ) -> None:
        self._topics = topics
        self._cache = cache
        self._lines = LogLines(monotonic_s)

    async def ensure_exists(self, name: str) -> None:
        """Creates the topic if it does not exist.

        As in Kafka (KIP-115), it is not created with fewer replicas than the operator has set. With
        a single replica on the first broker that was up, a failure of that broker would lose
        what a coordinator has acknowledged. Clients get COORDINATOR_NOT_AVAILABLE and try again
        until enough brokers are up.
        """
        if name in self._cache.image.topics:
            return
        try:
            await self._topics.create(NewTopic(name))
        except ApiError as error:
            if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
                raise self._too_few_brokers(name, error) from error
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _too_few_brokers(self, name: str, error: ApiError) -> ApiError:
        message = f"Topic {name} cannot be created yet. {error.message}"
        advice = "%s Start more brokers, or lower %s"
        arguments = (message, replication_factor_setting(name))
        self._lines.write([LogLine(logger.name, advice, arguments, is_limited=True)])
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)


async def repair(cache: MetadataCache, configs: Configs) -> None:
    """Gives internal topics the cleanup policy that they must have, if an earlier version or an
    operator created them without it. Called when a broker starts, before retention runs."""
    for name in sorted(INTERNAL_TOPICS & cache.image.topics.keys()):
        policy = cache.image.topics[name].overrides.get("cleanup.policy")
        if policy == "compact":
            continue
        try:
            await configs.change_topic(name, _compacted, validate_only=False)
        except ApiError as error:
            logger.error("topic %s: its cleanup.policy could not be put right: %s", name, error)
            continue
        logger.warning(
            "topic %s: its cleanup.policy was %s, which would delete what the coordinators keep "
            "there; it is compact now",
            name,
            policy or "not set",
        )


def _compacted(before: Mapping[str, str]) -> Mapping[str, str]:
    return {**before, "cleanup.policy": "compact"}
