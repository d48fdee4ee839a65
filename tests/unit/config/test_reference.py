"""The page of settings is current, and every setting stands on it once."""

import re
from collections import Counter
from pathlib import Path

from odradek.config.broker_settings import BROKER_DECLARED, BrokerSettings
from odradek.config.consumer_group_settings import GROUP_DECLARED
from odradek.config.reference import reference
from odradek.config.stock_files import REFUSALS
from odradek.config.topic_settings import TopicSettings
from odradek.config.without_effect import PREFIXES, UNDECLARED

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def sections() -> dict[str, list[str]]:
    """The names in the first column of every table, by the heading above it."""
    found: dict[str, list[str]] = {}
    for part in reference().split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        found[heading] = [
            name
            for line in body.splitlines()
            if line.startswith("| `")
            for name in re.findall(r"`([^`]+)`", line.split("|")[1])
        ]
    return found


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.config.reference docs/reference/settings.md"
    )


def test_every_setting_stands_once() -> None:
    names = Counter(name for table in sections().values() for name in table)
    assert [name for name, times in names.items() if times > 1] == []
    others = [other for setting in BrokerSettings.declared.values() for other in setting.aliases]
    known = {*BROKER_DECLARED, *others, *TopicSettings.declared, *GROUP_DECLARED, *UNDECLARED}
    known |= {f"{prefix}*" for prefix in PREFIXES} | {refusal.name for refusal in REFUSALS}
    assert set(names) == known


def test_a_setting_that_is_refused_is_shown_with_the_line_that_the_user_sees() -> None:
    assert sections()["Refused"] == sorted(refusal.name for refusal in REFUSALS)
    page = reference()
    for line in (
        "Invalid value file for config.providers: values are not looked up",
        "Invalid value true for zookeeper.ssl.crl.enable: certificates of ZooKeeper are not",
        "Invalid value controller for process.roles: there are no separate controllers here",
        "Invalid value true for remote.storage.enable: tiered storage is not available",
    ):
        assert f"`{line}" in page


def test_a_setting_without_effect_stands_only_with_those() -> None:
    tables = sections()
    idle = set(tables.pop("Known, without effect"))
    tables.pop("Refused")
    assert {"preallocate", "log.preallocate", "group.share.max.size", "zookeeper.*"} <= idle
    obeyed = {name for table in tables.values() for name in table}
    assert not any(BROKER_DECLARED[name].no_effect for name in obeyed if name in BROKER_DECLARED)
