"""The reference page of settings, written from the declarations.

`python -m odradek.config.reference docs/reference/settings.md` writes it, without a path it
prints it; a test checks that the page in the repository is current.
"""

import sys
from collections.abc import Iterable

from odradek.config.broker_settings import BrokerSettings
from odradek.config.consumer_group_settings import GROUP_DECLARED
from odradek.config.setting import Scope, Setting
from odradek.config.topic_settings import BROKER_SYNONYMS, TopicSettings
from odradek.config.without_effect import PREFIXES, UNDECLARED

_INTRODUCTION = """\
# Settings

Every setting has Kafka's name. Brokers read them from a properties file and from
`--override name=value`; settings that are not read-only also change while the broker runs
(`odradek configs --alter`). A topic's own setting wins over the broker's, a broker's own over
the cluster's, anything set at run time over the file. Unknown names are reported and ignored.

This page is generated: `python -m odradek.config.reference docs/reference/settings.md`.
"""


def reference() -> str:
    own = BrokerSettings.declared.values()
    parts = [
        _INTRODUCTION,
        "## Topics\n",
        (
            "`Broker's default` names the broker settings that give a topic its default, "
            "the first that is set winning.\n"
        ),
        _topic_table(TopicSettings.declared.values()),
        "## Consumer groups\n",
        "The broker's settings `group.consumer.*` give their defaults and their limits.\n",
        _group_table(GROUP_DECLARED.values()),
        "## Brokers\n",
        _broker_table(sorted(own, key=lambda setting: setting.name)),
        "## Brokers: defaults of topic settings\n",
        _broker_table(sorted(BROKER_SYNONYMS.values(), key=lambda setting: setting.name)),
        "## Accepted, without effect\n",
        (
            "A file written for Kafka may set these, and nothing changes. A broker whose file sets "
            "one of them to something else than Kafka's default says so in one line when it "
            "starts.\n"
        ),
        _idle_table(),
    ]
    return "\n".join(parts)


def _idle_table() -> str:
    declared = {**BrokerSettings.declared, **BROKER_SYNONYMS, **TopicSettings.declared}
    reasons = {name: setting.no_effect for name, setting in declared.items() if setting.no_effect}
    reasons |= {name: why for name, (_, why) in UNDECLARED.items()}
    reasons |= {f"{prefix}*": why for prefix, why in PREFIXES.items()}
    rows = [(f"`{name}`", why) for name, why in sorted(reasons.items())]
    return _table(("Name", "Why"), rows)


def _topic_table(settings: Iterable[Setting[object]]) -> str:
    rows = [
        (
            f"`{setting.name}`",
            setting.kind.name.lower(),
            _default(setting),
            setting.takes,
            ", ".join(f"`{synonym.name}`" for synonym in setting.synonyms) or "none",
            setting.full_doc,
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
            ", ".join(f"`{name}`" for name in (setting.name, *setting.also)),
            setting.kind.name.lower(),
            _default(setting),
            setting.takes,
            "no" if setting.scope is Scope.READ_ONLY else setting.scope.value,
            setting.importance.value,
            setting.full_doc,
        )
        for setting in settings
    ]
    head = ("Name", "Type", "Default", "Takes", "Changes while running", "Importance", "Meaning")
    return _table(head, rows)


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
