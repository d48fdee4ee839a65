"""Completion scripts: made from the parsers, and understood by the shells that are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.cli.commands import SUMMARIES
from odradek.cli.main import main
from odradek.testing import Cluster


def script_for(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_its_flags_are_there(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = script_for(shell, capsys)
    for command in SUMMARIES:
        assert command in script
    flag = "under-replicated-partitions"
    assert (f"-l {flag}" if shell == "fish" else f"--{flag}") in script
    assert "whitelist" not in script, "older spellings work, but are not suggested"


INSTALLED = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_shell_can_read_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_for(shell, capsys)
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=30)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["odradek", "console-p"], ["console-producer"]),
        (["odradek", "topics", "--under-r"], ["--under-replicated-partitions"]),
        (["odradek", "completion", "z"], ["zsh"]),
        (["odradek", "console-producer", "--compression-codec", "z"], ["zstd"]),
        (["odradek", "topics", "--partitions", ""], []),
        (["odradek", "topics", "--config", "retention.m"], ["retention.ms="]),
        (["odradek", "configs", "--add-config", "unclean.l"], ["unclean.leader.election.enable="]),
        (["odradek", "configs", "--delete-config", "retention.m"], ["retention.ms"]),
        (["odradek", "up", "--override", "num.partit"], ["num.partitions="]),
        (["odradek", "topics", "--command-property", "request.t"], ["request.timeout.ms="]),
        (["odradek", "console-producer", "--reader-property", "parse.k"], ["parse.key="]),
        (["odradek", "topics", "--describe", "--topic", "ord"], ["orders", "orders.v2"]),
        (["odradek", "consumer-groups", "--group", "b"], ["billing"]),
        (["odradek", "topics", "--list", "--profile", "st"], ["staging"]),
    ],
)
def test_bash_completes(
    line: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = script_for("bash", capsys)
    script += (
        'odradek() { [ "$1" = completion ] && case "$2" in topics) echo orders; echo orders.v2 ;;'
        " groups) echo billing ;; profiles) echo staging; echo laptop ;; esac; }\n"
    )
    words = " ".join(f"'{word}'" for word in line)
    ask = (
        f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _odradek;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    # As a file: the script is longer than an argument of a program may be.
    program = tmp_path / "completion.bash"
    program.write_text(script + ask)
    done = subprocess.run(
        ["bash", str(program)], text=True, check=True, capture_output=True, timeout=30
    )
    assert done.stdout.split() == expected


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_a_broker_that_does_not_answer_suggests_nothing(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["topics", "--bootstrap-server", "127.0.0.1:1", "--topic", ""]
    assert main(["completion", kind, *line]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_names_come_from_the_brokers_of_the_line(
    odradek_cluster: Cluster, odradek_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in (
        ["--bootstrap-server", odradek_cluster.bootstrap],
        [f"--bootstrap-server={odradek_cluster.bootstrap}"],
    ):
        assert main(["completion", "topics", "topics", "--describe", *address, "--topic", ""]) == 0
        assert odradek_topic in capsys.readouterr().out.splitlines()


def test_profiles_are_suggested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("[profiles.b]\n[profiles.a]\n")
    monkeypatch.setenv("ODRADEK_CONFIG", str(tmp_path / "config.toml"))
    assert main(["completion", "profiles"]) == 0
    assert capsys.readouterr().out == "a\nb\n"
