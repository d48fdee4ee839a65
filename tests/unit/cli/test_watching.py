"""`--watch`: what only looks is shown again and again."""

import argparse
import os
import subprocess
import sys

import pytest

from odradek.cli import watching
from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.main import main
from odradek.cli.parser import load_tool, visible_flags
from odradek.testing import Cluster
from odradek.tools.failures import CommandFailed

Captured = pytest.CaptureFixture[str]

LOOKING = {
    "acls", "archive", "balance", "broker-api-versions", "client-metrics", "cluster", "configs",
    "connect", "consumer-groups", "delegation-tokens",
    "doctor", "get-offsets", "groups",
    "lag", "local", "log-dirs", "pipeline", "reassign-partitions", "roles",
    "topics", "transactions", "zookeeper-shell",
}  # fmt: skip


def test_every_command_that_lists_or_describes_has_json_and_watch() -> None:
    for command in SUMMARIES:
        _, parser = load_tool(command, module_name(command))
        flags = visible_flags(parser)
        assert ("--watch" in flags) is (command in LOOKING), command
        if command in LOOKING or {"--list", "--describe"} & set(flags):
            assert {"--json", "--watch"} <= set(flags), command


@pytest.mark.parametrize(
    ("words", "interval"),
    [
        ("local --watch status", 2.0),
        ("local --watch 5 status", 5.0),
        ("local status --watch", 2.0),
        ("zookeeper-shell --watch 127.0.0.1:2181 ls /", 2.0),
    ],
)
def test_the_word_after_it_need_not_be_an_interval(words: str, interval: float) -> None:
    command, *arguments = words.split()
    _, parser = load_tool(command, module_name(command))
    assert parser.parse_args(arguments).watch == interval


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("topics", "--delete", "--topic", "t"), "--delete"),
        (("configs", "--alter", "--topic", "t", "--add-config", "a=b"), "--alter"),
        (("cluster", "unregister", "--id", "1"), "unregister"),
        (("acls", "--remove", "--topic", "t"), "--remove"),
        (("transactions", "abort", "--topic", "t", "--partition", "0"), "abort"),
    ],
)
def test_a_change_is_never_repeated(words: tuple[str, ...], changed: str, capsys: Captured) -> None:
    assert main([*words, "--watch"]) == 2
    assert f"{changed} changes something" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["soon", "0", "-1"])
def test_an_interval_is_a_number_of_seconds(text: str, capsys: Captured) -> None:
    assert main(["topics", "--list", f"--watch={text}"]) == 2
    assert "seconds" in capsys.readouterr().err


class Tool:
    """Fails in its second run; the user leaves after the third."""

    runs = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, arguments: argparse.Namespace) -> int:
        self.runs += 1
        if self.runs == 2:
            raise CommandFailed("the broker is away")
        print(f"run {self.runs}")
        return 0


def test_a_failure_in_between_is_shown_and_passed_over(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, slept = Tool(), []

    def leave_after_three(seconds: float) -> None:
        slept.append(seconds)
        if tool.runs == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "sleep", leave_after_three)
    arguments = argparse.Namespace(watch=5.0, changing=())
    assert watching.watch(tool, arguments, "odradek x") == 0
    said = capsys.readouterr()
    assert said.out == "run 1\nrun 3\n"
    assert said.err == "odradek x: the broker is away\n"
    assert slept == [5.0, 5.0, 5.0]


def test_the_first_failure_ends_it(capsys: Captured) -> None:
    assert main(["topics", "--list", "--watch", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


def test_it_ends_when_nobody_reads_it(odradek_cluster: Cluster) -> None:
    command = f'"{sys.executable}" -m odradek.cli cluster cluster-id --watch 0.1'
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        env={**os.environ, "ODRADEK_BOOTSTRAP": odradek_cluster.bootstrap},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == 141
