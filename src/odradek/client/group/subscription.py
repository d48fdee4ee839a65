"""The subscription of a consumer in a group: topics by name, or by a pattern.

A pattern is compared with the names of all topics, again every `metadata.max.age.ms`. With the new
consumer protocol the broker compares a pattern that is text (KIP-848).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable

from odradek.client import arguments
from odradek.client.arguments import GivenNames
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, is_retriable
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError, raise_for
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

_log = logging.getLogger("odradek.client")


def checked_topics(given: GivenNames, call: str) -> list[str]:
    """Returns the topics to subscribe to; a pattern among them is answered with what to write."""
    topics = arguments.names(given, call)
    for topic in topics:
        if not topic:
            raise ValueError(f"{call}: the name of a topic is empty")
        if topic.startswith("^"):
            # librdkafka takes it for a pattern, which may also match a part of the name.
            raise ValueError(
                f"{call}: {topic!r} is no topic: write subscribe(pattern={topic!r}), and let it"
                " match the whole name"
            )
    return topics


def checked_pattern(
    given: str | re.Pattern[str], settings: ConsumerSettings
) -> str | re.Pattern[str]:
    """Returns a pattern of this client compiled; one that the broker compares stays text."""
    if given == "":
        raise ValueError("subscribe(): pattern='' matches no topic; write pattern='.*' for all")
    if isinstance(given, str):
        if settings.group_protocol == "consumer":
            return given
        try:
            return re.compile(given)
        except re.error as error:
            raise ValueError(
                f"subscribe(): pattern={given!r} is no regular expression: {error}"
            ) from None
    compiled: object = given
    if not isinstance(compiled, re.Pattern) or not isinstance(compiled.pattern, str):
        raise arguments.wrong("subscribe()", "pattern as text", given, 'pattern="clicks-.*"')
    return given


class Subscription:
    """The topics to read; `on_change` is called when they change."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, on_change: Callable[[], None]
    ) -> None:
        self.topics: tuple[str, ...] = ()
        self.broker_pattern: str | None = None
        self.is_known = False
        self._cluster = cluster
        self._settings = settings
        self._on_change = on_change
        self._pattern: re.Pattern[str] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_set(self) -> bool:
        return self.is_known or self._pattern is not None

    def to_topics(self, topics: Iterable[str]) -> None:
        self._stop_watching()
        self._pattern = self.broker_pattern = None
        self._set(tuple(sorted(set(topics))))

    def to_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribes to the topics whose whole name matches; compared by this client."""
        self._stop_watching()
        self._pattern, self.broker_pattern = pattern, None
        self.is_known = False
        self._watching = asyncio.get_running_loop().create_task(
            self._watch(pattern), name="odradek-pattern"
        )

    def to_broker_pattern(self, pattern: str) -> None:
        """Subscribes to the topics that match; compared by the broker."""
        self._stop_watching()
        self._pattern, self.broker_pattern = None, pattern
        self.topics, self.is_known = (), True
        self._on_change()

    def clear(self) -> None:
        self._stop_watching()
        for topic in self.topics:
            self._cluster.untrack(topic)
        self._pattern = self.broker_pattern = None
        self.topics, self.is_known = (), False

    def _set(self, topics: tuple[str, ...]) -> None:
        for topic in self.topics:
            if topic not in topics:
                self._cluster.untrack(topic)
        for topic in topics:
            self._cluster.track(topic)
        self.topics, self.is_known = topics, True
        self._cluster.refresh_soon()
        self._on_change()

    async def _watch(self, pattern: re.Pattern[str]) -> None:
        failures = self._cluster.retry.failures()
        has_warned = False
        while True:
            try:
                names = await self._all_topics()
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    _log.warning("topics could not be listed: %s", error)
                await failures.wait()
                continue
            failures.reset()
            matching = tuple(sorted(name for name in names if pattern.fullmatch(name)))
            if not matching and not has_warned:
                has_warned = True
                _log.warning("%s", _nothing_matches(pattern.pattern, names))
            if matching != self.topics or not self.is_known:
                self._set(matching)
            await asyncio.sleep(self._settings.metadata_max_age_ms / 1000)

    async def _all_topics(self) -> list[str]:
        connection = await self._cluster.any_connection()
        response = await connection.request(
            MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse
        )
        raise_for(response.error_code)
        internal = not self._settings.exclude_internal_topics
        return [
            topic.name
            for topic in response.topics
            if topic.name and not topic.error_code and (internal or not topic.is_internal)
        ]

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def close(self) -> None:
        watching = self._watching
        self._stop_watching()
        if watching is not None:
            await asyncio.gather(watching, return_exceptions=True)


def _nothing_matches(pattern: str, names: list[str]) -> str:
    """Returns the warning about a pattern that matches no topic."""
    # `orders*` is how shells write it.
    meant = re.sub(r"(?<![.\])])\*", ".*", pattern)
    if not any(re.fullmatch(meant, name) for name in names):
        meant = f".*{pattern}.*"
    has_match = any(re.fullmatch(meant, name) for name in names)
    near = f"; did you mean {meant!r}?" if has_match else "; waiting for one"
    return f"no topic matches the pattern {pattern!r} with its whole name{near}"
