"""The files in `config/`: each is read without a complaint by what it is for."""

import logging
from pathlib import Path

import pytest

from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.config import BrokerSettings, parse_properties

DIRECTORY = Path(__file__).parents[3] / "config"


def shipped(name: str) -> dict[str, str]:
    return parse_properties((DIRECTORY / name).read_text())


def shown(name: str) -> dict[str, str]:
    """The file with those lines switched on that show a setting behind a #."""
    lines = (DIRECTORY / name).read_text().splitlines()
    words = [
        line[1:] if line.startswith("#") and line[1:2] not in (" ", "") else line for line in lines
    ]
    return parse_properties("\n".join(words))


def test_the_brokers_file_holds_only_settings_with_an_effect() -> None:
    for properties in (shipped("server.properties"), shown("server.properties")):
        settings = BrokerSettings.from_properties(properties)
        assert (settings.warnings, settings.idle_sentence) == ((), None)
    assert settings.log_dirs == ("./odradek-data",)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("producer.properties", ProducerSettings), ("consumer.properties", ConsumerSettings)],
)
def test_the_files_of_clients_show_defaults(
    name: str,
    settings: type[ProducerSettings] | type[ConsumerSettings],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        as_shipped = settings.from_properties(shipped(name))
        as_shown = settings.from_properties(shown(name))
    for key in (name.replace(".", "_") for name in shown(name)):
        assert getattr(as_shown, key) == getattr(as_shipped, key), key
    assert caplog.records == []


def test_zookeepers_file_removes_old_snapshots() -> None:
    properties = shipped("zookeeper.properties")
    assert properties["autopurge.purgeInterval"] == "1"
    assert "dataDir" in properties
    assert all(f"server.{number}" in shown("zookeeper.properties") for number in (1, 2, 3))
