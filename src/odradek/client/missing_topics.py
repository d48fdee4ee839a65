"""Topics that a client needs and brokers do not have: what is said about them, and when.

`Cluster` calls this after each refresh of its metadata. A topic that stays missing is warned of
once. A topic that a broker has created because this client asked for it
(`auto.create.topics.enable`) is warned of too: nobody has made it on purpose, and with a misspelt
name the records would be in a topic that nobody reads. Both warnings name a topic that was probably
meant.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

from odradek.client.cluster_view import ClusterView
from odradek.client.connection import Connection
from odradek.client.errors import ClientError
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wording import counted

_log = logging.getLogger("odradek.client")

# A topic that is being created is unknown for a moment, so the first answers are no reason to warn.
_ANSWERS_BEFORE_WARNING = 3
# So many names are compared with that of a missing topic, in about 25 ms.
_MAX_COMPARED = 1_000


class MissingTopics:
    def __init__(self, view: ClusterView) -> None:
        self._view = view
        # How often brokers have said that a topic does not exist.
        self._answers: dict[str, int] = {}
        # Topics that did not exist when this client asked brokers to create them.
        self._to_be_created: set[str] = set()

    def forget(self, topic: str) -> None:
        """Begins anew with a topic that is no longer tracked, or is needed only from now on."""
        self._answers.pop(topic, None)
        self._to_be_created.discard(topic)

    def unknown_in(self, response: MetadataResponse, needed: Collection[str]) -> list[str]:
        """Returns which needed topics an answer calls unknown: brokers are asked to create them."""
        if all(not topic.error_code for topic in response.topics):
            return []
        wanted = set(needed)
        unknown = [
            topic.name
            for topic in response.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name in wanted
        ]
        self._to_be_created.update(
            topic for topic in unknown if self._answers.get(topic, 0) < _ANSWERS_BEFORE_WARNING
        )
        return unknown

    async def report(self, connection: Connection, tracked: Mapping[str, bool]) -> None:
        """Looks at what a refresh has found, and warns of topics that are needed.

        `tracked` are the client's topics, with whether each is needed.
        """
        missing = self._newly_missing(tracked)
        created = [topic for topic in self._to_be_created if topic in self._view.topics]
        if not missing and not created:
            return
        known = await _all_names(connection)
        for topic in missing:
            self._to_be_created.discard(topic)
            hint = did_you_mean(topic, comparable(topic, known))
            self._view.note_missing(topic, hint)
            if tracked.get(topic):
                _log.warning("%s", _waiting_for(topic, hint))
            await asyncio.sleep(0)  # A comparison takes milliseconds.
        for topic in created:
            self._to_be_created.discard(topic)
            others = [name for name in known if name != topic]
            hint = did_you_mean(topic, comparable(topic, others))
            _log.warning("%s", _created(topic, len(self._view.topics[topic].partitions), hint))
            await asyncio.sleep(0)

    def _newly_missing(self, tracked: Iterable[str]) -> list[str]:
        """Returns the topics of which brokers have now said often enough that there are none."""
        missing = []
        for topic in tracked:
            if not isinstance(self._view.errors.get(topic), UnknownTopic):
                self._answers.pop(topic, None)
                continue
            answers = self._answers[topic] = self._answers.get(topic, 0) + 1
            if answers == _ANSWERS_BEFORE_WARNING:
                missing.append(topic)
        return missing


async def _all_names(connection: Connection) -> list[str]:
    try:
        response = await connection.request(
            MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse
        )
    except (ClientError, KafkaError):
        # The warning is worth more than its hint, and the next refresh has the same error.
        return []
    return [topic.name for topic in response.topics if topic.name]


def comparable(topic: str, known: Collection[str]) -> list[str]:
    """Returns names to compare with that of a missing topic: all of them, or if they are very many
    some that begin alike."""
    if len(known) <= _MAX_COMPARED:
        return list(known)
    return [name for name in known if name[0] == topic[0]][:_MAX_COMPARED]


def _waiting_for(topic: str, hint: str) -> str:
    """Returns the warning about a missing topic; `hint` is what `did_you_mean` returned."""
    if hint:
        return f"there is no topic {topic}{hint} Waiting for somebody to create it"
    return (
        f"there is no topic {topic}; waiting for somebody to create it"
        f" (odradek topics --create --topic {topic})"
    )


def _created(topic: str, partitions: int, hint: str) -> str:
    """Returns the warning about a topic that a broker has created for this client."""
    said = (
        f"topic {topic} did not exist, and the broker has created it, with"
        f" {counted(partitions, 'partition')}"
    )
    if hint:
        return f"{said}{hint} Then delete the new one: odradek topics --delete --topic {topic}"
    return f"{said} (auto.create.topics.enable)"
