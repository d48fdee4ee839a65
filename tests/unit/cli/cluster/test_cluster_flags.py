"""Flags of the tools for clusters, before anything is asked of a broker."""

import argparse

import pytest

from odradek.cli.cluster import cluster
from odradek.cli.commands import module_name
from odradek.cli.main import main
from odradek.cli.parser import load_tool
from odradek.cli.replicas import leader_election, reassign_partitions
from odradek.tools import hints
from odradek.tools.failures import UsageError


def parse(command: str, *flags: str) -> argparse.Namespace:
    return load_tool(command, module_name(command))[1].parse_args(list(flags))


@pytest.fixture(autouse=True)
def _no_hint_was_given_yet() -> None:
    hints._hinted.clear()


class TestReassignPartitions:
    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            ([], "exactly one of --generate"),
            (["--list", "--verify"], "exactly one of --generate"),
            (["--execute"], "--execute needs --reassignment-json-file"),
            (["--generate", "--topic", "t"], "--generate needs --broker-list"),
            (["--generate", "--broker-list", "1"], "--generate needs --topics-to-move-json-file"),
            (["--list", "--throttle", "5"], "would never get done"),
        ],
    )
    def test_what_does_not_go_together(self, flags: list[str], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            reassign_partitions.chosen_action(parse("reassign-partitions", *flags))

    @pytest.mark.parametrize("ids", ["1,1", "one", "1,,2", ""])
    def test_brokers_are_ids_each_once(self, ids: str) -> None:
        with pytest.raises(UsageError):
            parse("reassign-partitions", "--generate", "--topic", "t", "--broker-list", ids)

    def test_what_is_asked_for(self) -> None:
        arguments = parse(
            "reassign-partitions", "--generate", "--topic", "t", "--broker-list", "3,1"
        )
        assert reassign_partitions.chosen_action(arguments) == "generate"
        assert arguments.broker_list == [3, 1]


class TestLeaderElection:
    @pytest.mark.parametrize(
        "flags",
        [
            [],
            ["--all-topic-partitions", "--topic", "t", "--partition", "0"],
            ["--topic", "t"],
            ["--all-topic-partitions", "--partition", "1"],
        ],
    )
    def test_what_does_not_go_together(self, flags: list[str]) -> None:
        with pytest.raises(UsageError):
            leader_election.check(parse("leader-election", "--election-type", "unclean", *flags))

    def test_kafkas_capitals_are_understood(self) -> None:
        arguments = parse(
            "leader-election", "--election-type", "PREFERRED", "--all-topic-partitions"
        )
        assert arguments.election_type == "preferred"

    def test_the_older_tool_means_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = parse("leader-election", "--election-type", "preferred", "--all-by-default")
        leader_election.check(arguments)
        assert arguments.all_topic_partitions
        code = main(["kafka-preferred-replica-election.sh", "--bootstrap-server", "127.0.0.1:1"])
        assert code == 1
        said = capsys.readouterr().err
        assert "older name; use odradek leader-election" in said


class TestCluster:
    @pytest.mark.parametrize("action", ["decommission", "unregister"])
    def test_a_broker_is_needed(self, action: str) -> None:
        with pytest.raises(UsageError, match=f"{action} needs --id"):
            cluster.run(parse("cluster", action))

    def test_both_names_of_the_flag(self) -> None:
        assert parse("cluster", "decommission", "--broker", "3").id == 3


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("kafka-metadata-quorum.sh", "no quorum of controllers"),
    ],
)
def test_tools_that_have_nothing_to_do_say_so(
    command: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 2
    assert says in capsys.readouterr().err
