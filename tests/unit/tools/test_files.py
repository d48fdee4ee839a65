"""A file that is not what it should be is named in the one line of the error, whoever reads it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed, explain
from odradek.tools.files import cannot_create, no_such_file, not_permitted, read_text

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


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """root may read everything, so it becomes another user meanwhile."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A directory with a file, which another user may not enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        (place / "0.log").write_text("")
        place.chmod(0)
        yield place
        place.chmod(0o700)


def test_what_another_user_may_not_read_is_not_said_to_be_missing(forbidden: Path) -> None:
    file = forbidden / "0.log"
    said = f"cannot read {forbidden}: permission denied; "
    with as_somebody_else():
        for line in (
            no_such_file(str(file)),
            explain(PermissionError(13, "Permission denied", str(file))),
            not_permitted(str(forbidden)),
        ):
            assert line is not None
            assert line.startswith(said)
            assert "sudo -u root" in line or f"chmod u+rX {forbidden}" in line


@pytest.mark.parametrize(
    "words",
    [
        ("dump-log", "--files", "{}/0.log"),
        ("broker", "{}/server.properties"),
        ("local", "status", "--data", "{}/data"),
        ("local", "stop", "--data", "{}"),
        ("server-stop", "{}/data"),
        ("logs", "{}/data"),
    ],
)
def test_tools_say_what_they_may_not_read(
    words: tuple[str, ...], forbidden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What is imported may be out of reach for another user.
    main([word.format("/tmp/nowhere") for word in words])
    capsys.readouterr()
    with as_somebody_else():
        assert main([word.format(forbidden) for word in words]) == 1
    line = capsys.readouterr().err
    assert line.startswith(f"odradek {words[0]}: cannot read {forbidden}: permission denied; ")


def test_a_file_that_may_not_be_read(forbidden: Path) -> None:
    forbidden.chmod(0o755)
    file = forbidden / "0.log"
    file.chmod(0)
    with as_somebody_else():
        said = explain(PermissionError(13, "Permission denied", str(file)))
    assert said.startswith(f"cannot read {file}: permission denied; ")


def test_a_place_that_takes_no_files_is_answered_with_one_that_does() -> None:
    for failure, said in (
        (FileNotFoundError(2, "No such file or directory", "/proc/x"), "/proc takes no new files"),
        (OSError(30, "Read-only file system", "/mnt/x"), "Read-only file system"),
        (PermissionError(13, "Permission denied", "/mnt/x"), "Permission denied"),
    ):
        assert cannot_create(failure, "--dir ./certs") == (
            f"cannot write {failure.filename}: {said}; name a place that this user may write, such"
            " as --dir ./certs"
        )
