"""A failed connection names the flag, file or variable by which the user gave the address."""

from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.tools.failures import Unreachable, explain

TOPICS = ("topics", "--list")


@pytest.fixture(autouse=True)
def nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)
    monkeypatch.delenv("ODRADEK_PROFILE", raising=False)
    monkeypatch.setenv("ODRADEK_CONFIG", str(tmp_path / "config.toml"))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What follows the reason in the one line of a tool that reaches no broker."""
    assert main(list(words)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line.rpartition("connection refused; ")[2]


def test_an_address_of_this_machine_can_get_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *TOPICS, "--bootstrap-server", "127.0.0.1:9") == (
        "start one there with `odradek up --port 9`, or correct --bootstrap-server"
    )


def test_several_addresses_are_the_users_matter(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *TOPICS, "--bootstrap-server", "127.0.0.1:9,127.0.0.1:10") == (
        "check that brokers run, and that --bootstrap-server has their addresses"
    )


def test_zookeepers_port_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *TOPICS, "--bootstrap-server", "127.0.0.1:9,127.0.0.1:2181") == (
        "2181 is the port of ZooKeeper; brokers usually listen at 9092: correct --bootstrap-server"
    )


def test_a_variable_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "localhost:9")
    assert said(capsys, *TOPICS).endswith("or correct $ODRADEK_BOOTSTRAP")


def test_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=127.0.0.1:9\n")
    advice = said(capsys, *TOPICS, "--command-config", str(path))
    assert advice.endswith(f"or correct bootstrap.servers in {path}")


def test_a_property_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    advice = said(capsys, *TOPICS, "--command-property", "bootstrap.servers=127.0.0.1:9")
    assert advice.endswith("or correct --command-property bootstrap.servers")


def test_a_profile_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.staging]\nbootstrap.servers = "127.0.0.1:9"\n')
    advice = said(capsys, "--profile", "staging", *TOPICS)
    assert advice.endswith("or correct bootstrap.servers of profile staging")


def test_the_default_is_where_a_broker_is_started() -> None:
    assert explain(Unreachable("cannot reach a broker")) == (
        "cannot reach a broker; start one with `odradek up`, or name another with"
        " --bootstrap-server HOST:PORT"
    )
