"""The reference page of settings, written from the declarations.

`python -m odradek.config.reference docs/reference/settings.md` writes it, without a path it
prints it; a test checks that the page in the repository is current. Every setting is in one table:
settings that are obeyed, settings without effect, or settings that are refused. The lines about
refusals come from the code that refuses.
"""

import sys
from collections.abc import Iterable
from typing import Final

from odradek.config.broker_settings import BrokerSettings
from odradek.config.consumer_group_settings import GROUP_DECLARED
from odradek.config.setting import InvalidSetting, Scope, Setting
from odradek.config.stock_files import REFUSALS, Refusal
from odradek.config.topic_settings import BROKER_SYNONYMS, TopicSettings, check_topic_overrides
from odradek.config.without_effect import PREFIXES, UNDECLARED

_INTRODUCTION = """\
# Settings

Every setting has Kafka's name. Brokers read them from a properties file and from
`--override name=value`; settings that are not read-only also change while the broker runs
(`odradek configs --alter`). A topic's own setting wins over the broker's, a broker's own over
the cluster's, anything set at run time over the file.

Each setting stands in one of these tables:

- obeyed: [topics](#topics), [consumer groups](#consumer-groups), [brokers](#brokers) and
  [defaults of topic settings](#brokers-defaults-of-topic-settings);
- [known, without effect](#known-without-effect): accepted, and announced once when the broker
  starts;
- [refused](#refused): the broker does not start, or the topic is not made.

A name that is in none of them is unknown: the broker says so when it starts, with the nearest name
that it knows, and goes on without it.

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
            "`Broker's default` names the broker settings that give a topic its default, "
            "the first that is set winning.\n"
        ),
        _topic_table(topics),
        "## Consumer groups\n",
        "The broker's settings `group.consumer.*` give their defaults and their limits.\n",
        _group_table(GROUP_DECLARED.values()),
        "## Brokers\n",
        _broker_table(brokers),
        "## Brokers: defaults of topic settings\n",
        (
            f"{_names(sorted(shared))} have the same name for topics and for brokers and stand "
            "among those of topics; for brokers they change cluster-wide while running.\n"
        ),
        _broker_table(setting for setting in defaults if setting.name not in shared),
        "## Known, without effect\n",
        (
            "A file written for Kafka may set these, and nothing changes. A broker whose file sets "
            "one of them to something else than Kafka's default says so in one line when it "
            "starts; for a setting of a topic the line names the topic. `*` stands for every other "
            "name that begins so.\n"
        ),
        _idle_table(),
        "## Refused\n",
        (
            "Kafka takes these. Here each of them would promise something that is not there, or "
            "start a broker in the wrong cluster.\n"
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
            setting.takes,
            _names(synonym.name for synonym in setting.synonyms) or "none",
            setting.doc,
        )
        for setting in settings
    ]
    return _table(("Name", "Type", "Default", "Takes", "Broker's default", "Meaning"), rows)


def _group_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (f"`{setting.name}`", setting.kind.name.lower(), _default(setting), setting.doc)
        for setting in settings
    ]
    return _table(("Name", "Type", "Default", "Meaning"), rows)


def _broker_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (
            _names((setting.name, *setting.also)),
            setting.kind.name.lower(),
            _default(setting),
            setting.takes,
            "no" if setting.scope is Scope.READ_ONLY else setting.scope.value,
            setting.importance.value,
            setting.doc,
        )
        for setting in sorted(settings, key=lambda setting: setting.name)
    ]
    head = ("Name", "Type", "Default", "Takes", "Changes while running", "Importance", "Meaning")
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
