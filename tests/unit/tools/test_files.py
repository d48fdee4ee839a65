"""A file that is not what it should be is named in the one line of the error, whoever reads it."""

import os
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed, explain
from odradek.tools.files import no_such_file, read_text

RESET = "consumer-groups --reset-offsets --group g --from-file"
COMMANDS = (
    "topics --list --command-config",
    "console-producer --topic t --command-config",
    "console-producer --topic t --reader-config",
    "console-consumer --topic t --formatter-config",
    "configs --alter --topic t --add-config-file",
    "delete-records --offset-json-file",
    "leader-election --election-type preferred --path-to-json-file",
    "reassign-partitions --execute --reassignment-json-file",
    "reassign-partitions --generate --broker-list 1 --topics-to-move-json-file",
    RESET,
    "broker",
    "zookeeper",
)
CONTENTS = {
    "binary": b"\x00\x01\x02\xff\xfe",
    "zeros": b"a=\0\0\0",
    "latin-1": "Größe=1\n".encode("latin-1"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_that_is_not_text(
    command: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a file"
    path.write_bytes(content)
    assert main([*command.split(), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is " in line
    assert "not text" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_a_directory_or_missing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        assert main([*command.split(), str(path)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert str(path) in line


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command.endswith("json-file")]
)
def test_a_file_that_is_not_json(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan"
    path.write_text("orders 0 1,2,3\n")
    assert main([*command.split(), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is not JSON: " in line
    assert '; write {"' in line


def test_windows_marks_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfacks=all\r\n")
    assert read_text(str(path)) == "acks=all\r\n"
    assert read_properties(str(path)) == {"acks": "all"}


def test_a_properties_file_with_a_broken_escape_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=\\u12\n")
    with pytest.raises(CommandFailed, match=r"client\.properties: .*line 1 has a \\u escape"):
        read_properties(str(path))


def test_a_missing_file_is_answered_with_the_place_and_a_near_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.properties").touch()
    assert main(["topics", "--list", "--command-config", "clinet.properties"]) == 1
    line = f"there is no file clinet.properties in {tmp_path}; did you mean client.properties?"
    assert capsys.readouterr().err == f"odradek topics: {line}\n"
    assert no_such_file("other.json") == f"there is no file other.json in {tmp_path}"
    absolute = str(tmp_path / "client.propertis")
    assert no_such_file(absolute) == (
        f"there is no file {absolute}; did you mean {tmp_path}/client.properties?"
    )
    assert no_such_file("plans/a.json") == (
        f"there is no file plans/a.json, because there is no directory {tmp_path}/plans"
    )


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for failing, said in (
        (file.mkdir, f"{file} is a file, and not a directory; name"),
        ((file / "x").read_text, f"{file} is a file, and not a directory"),
        (tmp_path.read_text, f"{tmp_path} is a directory; name a file"),
        (tmp_path.mkdir, f"{tmp_path} exists already; name another"),
    ):
        with pytest.raises(OSError) as failed:  # noqa: PT011 - one of several kinds
            failing()
        assert explain(failed.value).startswith(said)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    said = explain(PermissionError(13, "Permission denied", str(file)))
    assert said.startswith(f"cannot read {file}: permission denied; let this user read it")
