"""Settings that a broker refuses, or that have no effect here."""

from argparse import Namespace
from pathlib import Path

from odradek.cli.doctor.findings import Findings
from odradek.cli.doctor.settings import check_described, check_file
from odradek.client.admin.config_types import ConfigEntry, ConfigSource


def checked(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    findings = Findings()
    check_file(findings, Namespace(config=str(path)))
    assert all(found.type is not None for found in findings.all if found.grade != "ok")
    return [(found.grade, found.text) for found in findings.all]


def test_a_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    assert checked(path, "node.id=1\n") == [("ok", f"a broker obeys every line of {path}")]
    ((grade, text),) = checked(path, "num.io.threads=9\nnum.network.threads=7\n")
    assert grade == "warning"
    assert "without effect here: num.io.threads, num.network.threads (" in text
    ((grade, text),) = checked(path, "num.partitons=3\n")
    assert "did you mean num.partitions?" in text
    ((grade, text),) = checked(path, "zookeeper.ssl.ocsp.enable=true\n")
    assert grade == "wrong"
    assert "certificates of ZooKeeper are not looked up" in text


def entry(name: str, value: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, value, source, True, False, 1, (), None)


def described(*entries: ConfigEntry) -> list[str]:
    findings = Findings()
    check_described(findings, 1, {entry.name: entry for entry in entries})
    return [found.text for found in findings.all]


def test_what_a_broker_was_given_without_effect() -> None:
    ours = entry("odradek.metadata.store", "sqlite", ConfigSource.DEFAULT_CONFIG)
    given = entry("num.io.threads", "9", ConfigSource.STATIC_BROKER_CONFIG)
    left = entry("num.network.threads", "3", ConfigSource.DEFAULT_CONFIG)
    obeyed = entry("num.partitions", "3", ConfigSource.STATIC_BROKER_CONFIG)
    (text,) = described(ours, given, left, obeyed)
    assert "settings that have no effect here: num.io.threads (a broker is one process" in text
    assert described(ours, left, obeyed) == []
    assert described(given) == [], "a broker of Kafka obeys it"
