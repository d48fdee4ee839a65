"""How the commands that start HTTP services read their file and their flags."""

import argparse
from pathlib import Path

import pytest

from odradek.cli.services.starting import settings_of
from odradek.rest.settings import RestSettings
from odradek.tools.failures import CommandFailed


def _given(file: Path, *overrides: str) -> argparse.Namespace:
    return argparse.Namespace(config=str(file), override=list(overrides))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kafka-rest.properties"
    path.write_text("bootstrap.servers=file:1\nhost.name=proxy\n")
    return path


def test_an_override_may_refer_to_a_secret_as_the_file_may(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERS", "secret:1")
    settings = settings_of(RestSettings, _given(file, "bootstrap.servers=${env:BROKERS}"))
    assert (settings.bootstrap_servers, settings.host_name) == ("secret:1", "proxy")


def test_a_mistake_in_a_flag_is_not_blamed_on_the_file(file: Path) -> None:
    with pytest.raises(CommandFailed, match=r"^Invalid value brokers for --override"):
        settings_of(RestSettings, _given(file, "brokers"))


def test_a_mistake_in_the_file_names_the_file(file: Path) -> None:
    file.write_text("consumer.request.max.bytes=much\n")
    with pytest.raises(CommandFailed, match=f"^{file}: "):
        settings_of(RestSettings, _given(file))
