"""Checks settings: those of a file before a broker starts, and those that brokers were given.

A setting that Kafka knows and Odradek does not obey is named with the reason, because an operator
who has set it counts on it.
"""

import argparse

from odradek.cli.doctor.findings import Findings
from odradek.client.admin.config_types import ConfigEntry, ConfigSource
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.broker_settings import BROKER_DECLARED
from odradek.config.without_effect import reason
from odradek.tools.client_properties import read_properties

# Kafka's brokers do not describe this setting, so it tells ours from theirs.
_OWN = "odradek.metadata.store"
_SEARCH = "odradek configs --describe --broker {broker} --all"


def check_file(findings: Findings, arguments: argparse.Namespace) -> BrokerSettings | None:
    """Checks the file of `--config`. Returns its settings, or None if a broker would refuse it."""
    path: str = arguments.config
    try:
        settings = BrokerSettings.from_properties(read_properties(path))
    except InvalidSetting as problem:
        findings.add("settings", "wrong", f"a broker refuses {path}: {problem}", f"editor {path}")
        return None
    complaints = [*settings.warnings]
    if settings.idle_sentence is not None:
        complaints.append(settings.idle_sentence)
    for complaint in complaints:
        findings.add("settings", "warning", f"{path}: {complaint}", f"editor {path}")
    if not complaints:
        findings.add("settings", "ok", f"a broker obeys every line of {path}")
    return settings


def check_described(findings: Findings, broker: int, entries: dict[str, ConfigEntry]) -> None:
    """Checks what a running broker says about its settings. Other brokers than ours are left alone:
    they obey what they describe."""
    if _OWN not in entries:
        return
    idle = []
    for name, entry in entries.items():
        why = reason(name, BROKER_DECLARED.get(name))
        if why is not None and entry.source not in (
            ConfigSource.DEFAULT_CONFIG,
            ConfigSource.UNKNOWN,
        ):
            idle.append(f"{name} ({why})")
    if idle:
        findings.add(
            f"broker {broker}",
            "warning",
            f"was given settings that have no effect here: {'; '.join(idle)}",
            _SEARCH.format(broker=broker),
        )
