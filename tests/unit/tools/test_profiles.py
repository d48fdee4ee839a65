"""Profiles of clusters in the user's own file, and which of many sources of a setting wins."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.profiles import chosen_profile, config_path

Captured = pytest.CaptureFixture[str]
Configure = Callable[[str], Path]

TWO = """
profile = "laptop"

[profiles.laptop]
bootstrap.servers = "laptop:1"

[profiles.staging]
bootstrap.servers = ["staging-1:1", "staging-2:1"]
request.timeout.ms = 60000
enable.metrics.push = false
"""


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    path = tmp_path / "my config.toml"
    monkeypatch.setenv("ODRADEK_CONFIG", str(path))
    monkeypatch.delenv("ODRADEK_PROFILE", raising=False)
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


def arguments(**given: object) -> argparse.Namespace:
    usual: dict[str, object] = {
        "profile": None,
        "command_config": None,
        "command_property": [],
        "bootstrap_server": None,
        "zookeeper": None,
    }
    return argparse.Namespace(**usual | given)


def test_the_file_is_where_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert config_path() == "/x/odradek/config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert config_path() == "/home/me/.config/odradek/config.toml"


def test_a_profile_has_client_settings_by_kafkas_names(configure: Configure) -> None:
    configure(TWO)
    assert client_properties(arguments(profile="staging")) == {
        "bootstrap.servers": "staging-1:1,staging-2:1",
        "request.timeout.ms": "60000",
        "enable.metrics.push": "false",
    }


def test_which_source_wins(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    def servers(**given: object) -> str:
        return client_properties(arguments(**given))["bootstrap.servers"]

    assert servers() == "127.0.0.1:9092", "there is no file"
    configure(TWO)
    assert servers() == "laptop:1"
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "environment:1")
    assert servers() == "environment:1"
    monkeypatch.setenv("ODRADEK_PROFILE", "staging")
    assert servers() == "staging-1:1,staging-2:1"
    assert servers(profile="laptop") == "laptop:1"
    assert servers(profile="laptop", bootstrap_server="flag:1") == "flag:1"


@pytest.mark.parametrize(
    ("text", "name", "answer"),
    [
        (TWO, "stagin", "did you mean staging?"),
        (TWO, "zzz", "there are laptop, staging"),
        ("", "staging", "write there [profiles.staging]"),
        ("profile = ", None, "is not TOML"),
        ("[profile.staging]\n", "staging", "no profile 'staging'"),
        ("[profils.staging]\n", None, "profils is unknown there"),
        ('profile = "gone"\n', None, "no profile 'gone'"),
    ],
)
def test_mistakes_are_answered(
    configure: Configure, text: str, name: str | None, answer: str
) -> None:
    path = configure(text)
    with pytest.raises(CommandFailed) as refused:
        chosen_profile(name)
    assert answer in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_profile_may_name_a_properties_file(configure: Configure, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=there:9092\nclient.id=mine\n")
    configure(f'[profiles.secured]\ncommand-config = "{file}"\nclient.id = "ours"\n')
    properties = client_properties(arguments(profile="secured"))
    assert properties["bootstrap.servers"] == "there:9092"
    assert properties["client.id"] == "ours"


@pytest.mark.parametrize(
    "words",
    [
        ("--profile", "nowhere", "topics", "--list"),
        ("--profile=nowhere", "topics", "--list"),
        ("topics", "--list", "--profile", "nowhere"),
    ],
)
def test_it_is_named_before_or_after_the_command(
    configure: Configure, words: tuple[str, ...], capsys: Captured
) -> None:
    configure('[profiles.nowhere]\nbootstrap.servers = "127.0.0.1:1"\n')
    assert main(list(words)) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--profile",), ("--profile", "x"), ("--profile=x",)])
def test_a_profile_without_a_command(words: tuple[str, ...], capsys: Captured) -> None:
    assert main(list(words)) == 2
    assert "odradek --profile NAME topics" in capsys.readouterr().err
