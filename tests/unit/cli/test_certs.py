"""`odradek certs` from its flags to its files."""

import json
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.world.disk import OsDisk


def test_certificates_are_made_shown_and_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--dir", str(tmp_path / "certs")]
    password = tmp_path / "password"
    password.write_text("store-secret\n")
    assert main(["certs", "create", *where, "--host", "kafka.example.org", "--days", "9"]) == 0
    assert main(["certs", "create", *where, "--name", "ada", "--pkcs12", str(password)]) == 0
    capsys.readouterr()
    assert main(["certs", "show", *where]) == 0
    shown = capsys.readouterr().out
    assert "CN=ada" in shown
    assert "for kafka.example.org" in shown
    assert "renew it: odradek certs renew" in shown
    assert main(["certs", "renew", *where, "--name", "broker", "--days", "90"]) == 0
    capsys.readouterr()
    assert main(["certs", "show", *where, "--json"]) == 0
    found = {Path(one["path"]).name: one for one in json.loads(capsys.readouterr().out)}
    assert found["broker.pem"]["days_left"] in (89, 90)
    assert found["broker.pem"]["names"] == ["kafka.example.org"]
    assert (tmp_path / "certs" / "ada.p12").exists()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (["renew"], "there are no certificates in"),
        (["show"], "odradek certs create --dir"),
        (["renew", "--host", "x"], "--host is for create"),
        (["show", "--pkcs12", "x"], "--pkcs12 is for create and renew"),
        (["create", "--pkcs12", "nowhere"], "cannot read the password in nowhere"),
        (["create", "--name", "../x"], "cannot be a name"),
        (["create", "--host", "a b"], "is not a host name or an address"),
    ],
)
def test_mistakes_are_answered_in_a_line(
    line: list[str], answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", *line, "--dir", str(tmp_path / "certs")]) != 0
    error = capsys.readouterr().err
    assert answer in error
    assert "Traceback" not in error


def test_a_directory_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: OsDisk, path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(OsDisk, "make_directories", refuse)
    assert main(["certs", "create", "--dir", "/proc/x"]) == 1
    assert capsys.readouterr().err.startswith(
        "odradek certs: cannot write /proc/x: /proc takes no new files; name a place"
    )
