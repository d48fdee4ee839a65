"""The reference page of settings, written from the declarations.

`python -m odradek.config.reference docs/reference/settings.md` writes it, without a path it
prints it; a test checks that the page in the repository is current. Every setting is in one table:
settings that are obeyed, settings without effect, or settings that are refused. The lines about
refused settings come from the code that refuses them.
"""

import sys
from collections.abc import Iterable
from typing import Final

from odradek.config.broker_settings import BrokerSettings
from odradek.config.consumer_group_settings import GROUP_DECLARED
from odradek.config.setting import InvalidSetting, Setting
from odradek.config.stock_files import REFUSALS, Refusal
from odradek.config.topic_checks import check_topic_overrides
from odradek.config.topic_settings import BROKER_SYNONYMS, TopicSettings
from odradek.config.without_effect import PREFIXES, UNDECLARED

_INTRODUCTION = """\
# Settings

Settings have the same names as in Kafka. A broker reads them from a properties file and from
`--override name=value`. Settings that are not read-only can also be changed while the broker runs
(`odradek configs --alter`): for one broker or for all brokers of the cluster. For a topic, the
setting of the topic is used before that of the broker, that of one broker before that of the
cluster, and a setting that was changed at run time before that of the file.

Each setting is in one of these tables:

- obeyed: [topics](#topics), [consumer groups](#consumer-groups), [brokers](#brokers) and
  [defaults of topic settings](#brokers-defaults-of-topic-settings);
- [known, without effect](#known-without-effect): accepted; the broker logs them once when it
  starts;
- [refused](#refused): the broker does not start, or the topic is not created.

A name that is in none of them is unknown. The broker ignores it and logs a warning when it starts,
with the most similar name that it knows.

This page is generated: `python -m odradek.config.reference docs/reference/settings.md`.
"""

_REFUSED: Final = frozenset(refusal.name for refusal in REFUSALS)


def reference() -> str:
    topics = [setting for setting in TopicSettings.declared.values() if _is_obeyed(setting)]
    brokers = [setting for setting in BrokerSettings.declared.values() if _is_obeyed(setting)]
    defaults = [setting for setting in BROKER_SYNONYMS.values() if _is_obeyed(setting)]
    shared = {setting.name for setting in topics} & {setting.name for setting in defaults}
    parts = [
        _INTRODUCTION,
        "## Topics\n",
        (
            "`Broker default` names the broker settings that are the default of the topic setting. "
            "If there are several, the first one that is set is used.\n"
        ),
        _topic_table(topics),
        "## Consumer groups\n",
        "Their defaults and their limits are the broker settings `group.consumer.*`.\n",
        _group_table(GROUP_DECLARED.values()),
        "## Brokers\n",
        _broker_table(brokers),
        "## Brokers: defaults of topic settings\n",
        (
            f"{_names(sorted(shared))} have the same name for topics and for brokers and are in "
            "the table of topics. For brokers they can be changed cluster-wide at run time.\n"
        ),
        _broker_table(setting for setting in defaults if setting.name not in shared),
        "## Known, without effect\n",
        (
            "A file that was written for Kafka may set these; they change nothing. If one of them "
            "is set to another value than Kafka's default, the broker logs one line when it "
            "starts; for a setting of a topic the line names the topic. `*` means every other "
            "name with this prefix.\n"
        ),
        _idle_table(),
        "## Refused\n",
        (
            "Kafka accepts these. Odradek refuses them because it lacks the feature, or because "
            "the broker would start as a cluster of its own by mistake.\n"
        ),
        _refusal_table(),
    ]
    return "\n".join(parts)


def _is_obeyed(setting: Setting[object]) -> bool:
    return not setting.no_effect and setting.name not in _REFUSED


def _idle_table() -> str:
    rows: dict[str, tuple[str, str, str]] = {}
    for of, declared in (
        ("topics", TopicSettings.declared),
        ("brokers", {**BrokerSettings.declared, **BROKER_SYNONYMS}),
    ):
        for name, setting in declared.items():
            if setting.no_effect:
                assert name not in rows, name
                rows[name] = of, _default(setting), setting.no_effect
    for name, (default, why) in UNDECLARED.items():
        if name not in _REFUSED:
            rows[name] = "brokers", f"`{default}`" if default else "unset", why
    for prefix, why in PREFIXES.items():
        rows[f"{prefix}*"] = "brokers", "", why
    head = ("Name", "Of", "Kafka's default", "Why it has no effect")
    return _table(head, ((f"`{name}`", *row) for name, row in sorted(rows.items())))


def _refusal_table() -> str:
    rows = [
        (
            f"`{refusal.name}`",
            "topics" if refusal.is_of_topics else "brokers",
            refusal.when,
            refusal.otherwise,
            f"`{_line(refusal)}`",
        )
        for refusal in sorted(REFUSALS)
    ]
    return _table(("Name", "Of", "Refused if", "Otherwise", "What the user sees"), rows)


def _line(refusal: Refusal) -> str:
    try:
        if refusal.is_of_topics:
            check_topic_overrides(refusal.example, TopicSettings())
        else:
            BrokerSettings.from_properties(refusal.example)
    except InvalidSetting as error:
        return str(error)
    raise AssertionError(f"{refusal.name} is not refused: {refusal.example}")


def _topic_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (
            f"`{setting.name}`",
            setting.kind.name.lower(),
            _default(setting),
            setting.expected,
            _names(synonym.name for synonym in setting.synonyms) or "none",
            setting.doc,
        )
        for setting in settings
    ]
    return _table(
        ("Name", "Type", "Default", "Valid values", "Broker default", "Description"), rows
    )


def _group_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (f"`{setting.name}`", setting.kind.name.lower(), _default(setting), setting.doc)
        for setting in settings
    ]
    return _table(("Name", "Type", "Default", "Description"), rows)


def _broker_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (
            _names((setting.name, *setting.aliases)),
            setting.kind.name.lower(),
            _default(setting),
            setting.expected,
            setting.scope.value,
            setting.importance.value,
            setting.doc,
        )
        for setting in sorted(settings, key=lambda setting: setting.name)
    ]
    head = (
        "Name",
        "Type",
        "Default",
        "Valid values",
        "Update mode",
        "Importance",
        "Description",
    )
    return _table(head, rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(setting: Setting[object]) -> str:
    if setting.default is None:
        return "unset"
    text = setting.text(setting.default)
    return f"`{text}`" if text else "empty"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.stdout.write(reference())
        return
    from odradek.world import OsDisk  # noqa: PLC0415  - only this command writes

    OsDisk().replace(arguments[0], reference().encode())


if __name__ == "__main__":
    main(sys.argv[1:])
