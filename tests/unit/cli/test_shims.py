"""`odradek shims`: Kafka's names on the PATH."""

import os
import subprocess
from pathlib import Path

import pytest

from odradek.cli.commands import SUMMARIES
from odradek.cli.kafka_names import NEEDLESS, NOT_YET, OLDER_NAMES, RUN_CLASS, resolve
from odradek.cli.main import main
from odradek.cli.shims import script_names

Captured = pytest.CaptureFixture[str]


def test_every_script_is_understood() -> None:
    for name in script_names():
        assert resolve(name) in {*SUMMARIES, *OLDER_NAMES, *NOT_YET, *NEEDLESS, RUN_CLASS}, name
        assert name.startswith(("kafka-", "zookeeper-", "connect-", "schema-registry-"))


def test_a_script_of_a_tool_that_is_not_here_says_what_to_type(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main(["shims", str(tmp_path)]) == 0
    for name in ("connect-mirror-maker.sh", "kafka-features.sh", "kafka-mirror-maker"):
        assert (tmp_path / name).exists()
        assert main([name, "a", "b"]) == 2
        assert "odradek " in capsys.readouterr().err


def test_scripts_run_from_a_directory_with_spaces(tmp_path: Path, capsys: Captured) -> None:
    directory = tmp_path / "my $HOME 'bin'"
    assert main(["shims", str(directory)]) == 0
    export = capsys.readouterr().out.splitlines()[-1].strip()
    for name in ("kafka-topics", "kafka-topics.sh"):
        done = subprocess.run(
            ["sh", "-c", f'{export}; {name} --topic "two words" --if-exist'],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ODRADEK_BOOTSTRAP": "127.0.0.1:1"},
            timeout=60,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("odradek topics: give exactly one of --create")


def test_scripts_may_be_written_again(tmp_path: Path) -> None:
    assert main(["shims", str(tmp_path)]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert main(["shims", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert {"kafka-topics", "kafka-topics.sh", "zookeeper-shell.sh", "kafka-run-class.sh"} <= {
        *names
    }


def test_a_foreign_file_is_not_replaced(tmp_path: Path, capsys: Captured) -> None:
    foreign = tmp_path / "kafka-topics.sh"
    foreign.write_text("#!/bin/sh\n")
    assert main(["shims", str(tmp_path)]) == 1
    assert f"{foreign} exists and is not ours" in capsys.readouterr().err
    assert foreign.read_text() == "#!/bin/sh\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-topics.sh"]


def test_a_directory_that_cannot_be_written(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("")
    assert main(["shims", str(tmp_path / "file" / "bin")]) == 1
    assert capsys.readouterr().err == (
        f"odradek shims: {tmp_path / 'file'} is a file, and not a directory; name another place\n"
    )
