"""A flag of another tool is answered with the flag that means the same in this one."""

import pytest

from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.flag_habits import _SAME
from odradek.cli.main import main
from odradek.cli.parser import load_tool, visible_flags


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("console-producer --topic t --acks all", "--request-required-acks"),
        ("console-producer --topic t --parse-key", "--reader-property parse.key=true"),
        ("console-producer --topic t --key-separator :", "--reader-property key.separator=:"),
        ("console-producer --topic t --linger-ms 5", "--command-property linger.ms=VALUE"),
        ("console-producer --topic t --compression-type gzip", "--compression-codec"),
        ("console-consumer --topic t --print-key", "--formatter-property print.key=true"),
        ("console-consumer --topic t --key-separator :", "--formatter-property key.separator=:"),
        ("console-consumer --topic t --group-id g", "--group"),
        ("console-consumer --topic t --num-messages 5", "--max-messages"),
        ("console-consumer --topic t --limit 5", "--max-messages"),
        ("console-consumer --topic t --earliest", "--from-beginning"),
        ("console-consumer --auto-offset-reset earliest", "--command-property auto.offset.reset="),
        ("console-consumer --topics t", "--topic"),
        ("producer-perf-test --topic t --num-messages 5", "--num-records"),
        ("producer-perf-test --topic t --message-size 5", "--record-size"),
        ("producer-perf-test --topic t --acks 1", "--command-property acks=VALUE"),
        ("verifiable-consumer --topic t --group g", "--group-id"),
        ("topics --create --topic t --num-partitions 3", "--partitions"),
        ("topics --create --topic t --replicas 3", "--replication-factor"),
        ("topics --create --topic t --retention-ms 5", "--config retention.ms=VALUE"),
        ("topics --add --topic t", "--create"),
        ("topics --remove --topic t", "--delete"),
        ("topics --list --brokers localhost:9092", "--bootstrap-server"),
        ("configs --alter --topic t --retention-ms 5", "--add-config retention.ms=VALUE"),
        ("configs --alter --topic t --config a=1", "--add-config"),
        ("consumer-groups --describe --consumer-group g", "--group"),
        ("consumer-groups --reset-offsets --group g --to-timestamp 5", "--to-datetime"),
        ("acls --add --allow User:a --topic t", "--allow-principal"),
        ("reassign-partitions --execute --json-file f", "--reassignment-json-file"),
        ("delete-records --file f", "--offset-json-file"),
        # A letter that is wrong counts more than another tool.
        ("topics --lits", "--list"),
    ],
)
def test_what_was_meant(line: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert f"; did you mean {meant}" in capsys.readouterr().err


def test_every_flag_that_is_suggested_exists() -> None:
    """Of each group of flags with the same meaning, some tool has the first one."""
    existing = {
        flag
        for command in SUMMARIES
        for flag in visible_flags(load_tool(command, module_name(command))[1])
    }
    for flags in _SAME:
        assert flags[0] in existing
