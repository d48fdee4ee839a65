"""Completion scripts: made from the parsers, and understood by the shells that are installed."""

import shutil
import subprocess

import pytest

from odradek.cli.commands import SUMMARIES
from odradek.cli.main import main


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
    ],
)
def test_bash_completes(
    line: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = script_for("bash", capsys)
    words = " ".join(f"'{word}'" for word in line)
    ask = (
        f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _odradek;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script + ask], text=True, check=True, capture_output=True, timeout=30
    )
    assert done.stdout.split() == expected
