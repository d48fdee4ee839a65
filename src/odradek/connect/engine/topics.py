"""Makes the topics that a source writes to, by the rules of its configuration (KIP-158).

    topic.creation.default.replication.factor=3      for topics of no group
    topic.creation.default.partitions=5
    topic.creation.groups=compacted
    topic.creation.compacted.include=orders.*        patterns of names, with commas between
    topic.creation.compacted.cleanup.policy=compact

Without the two settings of `default` nothing is made here, and the broker makes topics if it is
set to.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from odradek.client.admin.admin import Admin
from odradek.config.values import parse_list
from odradek.connect.errors import ConnectError, InvalidConfig
from odradek.connect.settings import Problems, invalid, missing
from odradek.connect.transforms.chain import properties_below
from odradek.connect.transforms.java_patterns import java_pattern
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.wording import counted

_log = logging.getLogger("odradek.connect")

PREFIX: Final = "topic.creation."
_GROUPS: Final = f"{PREFIX}groups"
_DEFAULT: Final = "default"
_FACTOR: Final = "replication.factor"
_PARTITIONS: Final = "partitions"
_OWN: Final = (_FACTOR, _PARTITIONS, "include", "exclude")


class TopicMaker:
    def __init__(
        self, properties: Mapping[str, str], admin: Mapping[str, object], is_on: bool
    ) -> None:
        """`admin` are the properties of an admin client. `is_on` is the worker's
        `topic.creation.enable`."""
        self._properties = properties
        self._admin = admin
        self._is_on = is_on and f"{PREFIX}{_DEFAULT}.{_FACTOR}" in properties

    async def prepare(self, topic: str) -> None:
        """Makes a topic that is not there, if the connector has rules for it."""
        if not self._is_on:
            return
        rule = self._rule(topic)
        defaults = properties_below(f"{PREFIX}{_DEFAULT}.", self._properties)
        partitions = int(rule.get(_PARTITIONS) or defaults.get(_PARTITIONS) or 1)
        factor = int(rule.get(_FACTOR) or defaults.get(_FACTOR) or -1)
        configs = {name: text or "" for name, text in rule.items() if name not in _OWN}
        await self.create(topic, partitions, factor, configs)

    def _rule(self, topic: str) -> dict[str, str | None]:
        for group in parse_list(self._properties.get(_GROUPS, "")):
            own = properties_below(f"{PREFIX}{group}.", self._properties)
            if _matches(own.get("include"), topic) and not _matches(own.get("exclude"), topic):
                return own
        return properties_below(f"{PREFIX}{_DEFAULT}.", self._properties)

    async def create(
        self, topic: str, partitions: int, factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Makes a topic if there is none, with as many replicas as there are brokers for."""
        async with Admin(dict(self._admin)) as admin:
            found = (await admin.describe_topics([topic]))[topic]
            if not isinstance(found, KafkaError):
                return
            if factor > 0:
                factor = min(factor, len((await admin.describe_metadata([])).brokers))
            try:
                given: dict[str, Any] = dict(configs or {})
                await admin.create_topic(topic, partitions, factor, given)
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise ConnectError(f"topic {topic} cannot be made: {error}") from error
            else:
                _log.info("made topic %s with %s", topic, counted(partitions, "partition"))


def _matches(patterns: str | None, topic: str) -> bool:
    return any(java_pattern(one).fullmatch(topic) for one in parse_list(patterns or ""))


def wrong_rules(properties: Mapping[str, str | None]) -> Problems:
    """Returns what is wrong with the rules of a source."""
    problems: Problems = {}
    groups = parse_list(properties.get(_GROUPS) or "")
    given = [name for name in properties if name.startswith(f"{PREFIX}{_DEFAULT}.")]
    if groups or given:
        for name in (f"{PREFIX}{_DEFAULT}.{_FACTOR}", f"{PREFIX}{_DEFAULT}.{_PARTITIONS}"):
            if not properties.get(name):
                problems[name] = [missing(name)]
    for group in (_DEFAULT, *groups):
        for setting in (_FACTOR, _PARTITIONS):
            name = f"{PREFIX}{group}.{setting}"
            text = properties.get(name)
            if text and not _is_count(text):
                problems[name] = [invalid(name, text, "must be -1 or a number from 1 on")]
        if group != _DEFAULT and not properties.get(f"{PREFIX}{group}.include"):
            problems[f"{PREFIX}{group}.include"] = [missing(f"{PREFIX}{group}.include")]
        for setting in ("include", "exclude"):
            name = f"{PREFIX}{group}.{setting}"
            for pattern in parse_list(properties.get(name) or ""):
                try:
                    java_pattern(pattern)
                except InvalidConfig as error:
                    problems[name] = [invalid(name, pattern, str(error))]
    return problems


def _is_count(text: str) -> bool:
    try:
        count = int(text)
    except ValueError:
        return False
    return count == -1 or 1 <= count <= 32_767
