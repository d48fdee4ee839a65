"""The settings that every connector has, beside those of its class."""

import re
from collections.abc import Mapping
from typing import Final

from odradek.config.kinds import boolean, integer, long, names, string
from odradek.config.setting import Importance
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern

COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_VERSION: Final = "The version of that class; the one that is installed, or nothing."
MOST_TASKS: Final = 1000
"""A sink has as many tasks as it may, and in the shared lane each of them is a process."""


class ConnectorSettings(PluginSettings):
    name = string("name", REQUIRED, "A name of its own.", importance=_HIGH)
    connector_class = string(
        "connector.class", REQUIRED, "The class, or the last part of its name.", importance=_HIGH
    )
    connector_plugin_version = string(
        "connector.plugin.version",
        None,
        "The version of the class; the one that is installed, or nothing.",
        importance=_MEDIUM,
    )
    tasks_max = integer(
        "tasks.max",
        1,
        "How many tasks there are, at most.",
        at_least=1,
        at_most=MOST_TASKS,
        importance=_HIGH,
    )
    tasks_max_enforce = boolean(
        "tasks.max.enforce", True, "Refuse to run a connector that makes more tasks."
    )
    key_converter = string("key.converter", None, "The converter of keys; unset, the worker's.")
    key_converter_version = string("key.converter.plugin.version", None, _VERSION)
    value_converter = string(
        "value.converter", None, "The converter of values; unset, the worker's."
    )
    value_converter_version = string("value.converter.plugin.version", None, _VERSION)
    header_converter = string(
        "header.converter", None, "The converter of headers; unset, the worker's."
    )
    header_converter_version = string("header.converter.plugin.version", None, _VERSION)
    transforms = names("transforms", (), "Names for the transforms, in their order.")
    predicates = names("predicates", (), "Names for the predicates that transforms use.")
    config_action_reload = string(
        "config.action.reload",
        "restart",
        "What happens when a secret that the configuration refers to is about to end.",
        choices=("none", "restart"),
    )
    odradek_lane = string(
        "odradek.lane",
        "shared",
        "The query of Spark that runs the tasks: that of all connectors, or one of its own.",
        choices=("shared", "own"),
    )
    errors_retry_timeout = long(
        "errors.retry.timeout", 0, "How long a failed operation is tried again, in ms; -1: always."
    )
    errors_retry_delay_max_ms = long(
        "errors.retry.delay.max.ms", 60_000, "The longest pause between two tries.", at_least=0
    )
    errors_tolerance = string(
        "errors.tolerance",
        "none",
        "`none`: a record that fails ends the task. `all`: it is skipped.",
        choices=("none", "all"),
    )
    errors_log_enable = boolean(
        "errors.log.enable", False, "Write failed records to the log, with the reason."
    )
    errors_log_include_messages = boolean(
        "errors.log.include.messages", False, "Write the record itself to the log too."
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        if not self.name.strip() or _CONTROL.search(self.name):
            reason = "String may not be empty or contain control characters"
            problems["name"] = [invalid("name", self.name, reason)]
        for setting, given in (("transforms", self.transforms), ("predicates", self.predicates)):
            if len(set(given)) != len(given):
                problems[setting] = [invalid(setting, ",".join(given), "Duplicate alias provided.")]
        return problems


class SourceSettings(ConnectorSettings):
    topic_creation_groups = names(
        "topic.creation.groups", (), "Groups of topics that the connector makes by rules."
    )
    exactly_once_support = string(
        "exactly.once.support",
        "requested",
        "`required`: the connector does not start unless it writes exactly once.",
        choices=("requested", "required"),
        folds_case=True,
    )
    transaction_boundary = string(
        "transaction.boundary",
        "poll",
        "Where transactions end. Here each batch of a task is one, whatever this says.",
        choices=("poll", "interval", "connector"),
        folds_case=True,
    )
    transaction_boundary_interval_ms = long(
        "transaction.boundary.interval.ms",
        None,
        "The interval for transaction.boundary=interval.",
        at_least=0,
    )
    offsets_storage_topic = string(
        "offsets.storage.topic",
        None,
        "A topic for the offsets of this connector alone.",
        may_be_empty=False,
    )

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        name = "transaction.boundary"
        if self.transaction_boundary == "connector":
            problems[name] = [_NO_BOUNDARIES]
        return problems


_NO_BOUNDARIES: Final = (
    "The connector does not support connector-defined transaction boundaries with the given"
    " configuration. Please reconfigure it to use a different transaction boundary definition."
)
_NEEDS_TOPICS: Final = "Must configure one of topics or topics.regex"


class SinkSettings(ConnectorSettings):
    topics = names("topics", (), "The topics to read.", importance=_HIGH)
    topics_regex = string("topics.regex", "", "A pattern of topics to read.", importance=_HIGH)
    errors_deadletterqueue_topic_name = string(
        "errors.deadletterqueue.topic.name", "", "The topic for records that fail; none if empty."
    )
    errors_deadletterqueue_topic_replication_factor = integer(
        "errors.deadletterqueue.topic.replication.factor",
        3,
        "The replication factor with which that topic is made.",
        at_least=1,
    )
    errors_deadletterqueue_context_headers_enable = boolean(
        "errors.deadletterqueue.context.headers.enable",
        False,
        "Add headers that say where the record is from, and why it failed.",
    )

    @classmethod
    def validate(cls, properties: Mapping[str, str | None]) -> Problems:
        """Missing topics are reported beside everything else that is wrong."""
        problems = super().validate(properties)
        names_of_topics = ("topics", "topics.regex")
        if not any((properties.get(name) or "").strip() for name in names_of_topics):
            for name in names_of_topics:
                problems.setdefault(name, [invalid(name, "", _NEEDS_TOPICS)])
        return problems

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        given = ",".join(self.topics)
        both = "topics and topics.regex are mutually exclusive options, but both are set."
        if self.topics and self.topics_regex:
            problems["topics"] = [invalid("topics", given, both)]
            problems["topics.regex"] = [invalid("topics.regex", self.topics_regex, both)]
            return problems
        if not self.topics and not self.topics_regex.strip():
            problems["topics"] = [invalid("topics", given, _NEEDS_TOPICS)]
            problems["topics.regex"] = [invalid("topics.regex", "", _NEEDS_TOPICS)]
            return problems
        if len(set(self.topics)) != len(self.topics):
            problems["topics"] = [invalid("topics", given, "Duplicate topic provided.")]
        problems.update(self._wrong_dead_letters())
        return problems

    def _wrong_dead_letters(self) -> Problems:
        letters = self.errors_deadletterqueue_topic_name
        try:
            pattern = java_pattern(self.topics_regex) if self.topics_regex else None
        except InvalidConfig as error:
            return {"topics.regex": [invalid("topics.regex", self.topics_regex, str(error))]}
        if letters and letters in self.topics:
            reason = f"the dead-letter topic {letters} is one of them"
            return {"topics": [invalid("topics", ",".join(self.topics), reason)]}
        if letters and pattern is not None and pattern.fullmatch(letters):
            reason = f"it matches the dead-letter topic {letters}"
            return {"topics.regex": [invalid("topics.regex", self.topics_regex, reason)]}
        return {}
