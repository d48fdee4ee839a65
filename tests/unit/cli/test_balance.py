"""What the flags of `odradek balance` mean, before a broker is asked."""

import argparse
from pathlib import Path

import pytest

from odradek.cli.balance.balance import check
from odradek.cli.balance.balance_actions import _rates, _request, options_of
from odradek.cli.commands import module_name
from odradek.cli.parser import load_tool
from odradek.ops.balance.planner import Kind
from odradek.protocol.types import TopicPartition
from odradek.tools.failures import CommandFailed, MissingFlag, UsageError


def parse(*flags: str) -> argparse.Namespace:
    return load_tool("balance", module_name("balance"))[1].parse_args(list(flags))


def test_flags_become_a_request_and_options() -> None:
    arguments = parse(
        "remove-broker", "--id", "3,4", "--tolerance", "5%", "--throttle", "10MB",
        "--max-moves", "2", "--max-disk", "70", "--exclude-topics", "a.*",
    )  # fmt: skip
    check(arguments)
    request = _request(arguments)
    assert (request.kind, request.brokers) == (Kind.REMOVE, frozenset({3, 4}))
    assert (request.limits.tolerance, request.limits.disk_share) == (0.05, 0.7)
    assert request.exclude_topics == "a.*"
    assert (options_of(arguments).throttle, options_of(arguments).max_moves) == (10_000_000, 2)


def test_brokers_are_named_where_they_matter_and_only_there() -> None:
    with pytest.raises(MissingFlag, match="demote-broker needs --id"):
        check(parse("demote-broker"))
    with pytest.raises(UsageError, match="plan is about all brokers"):
        check(parse("plan", "--id", "3"))


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["plan", "--id", "x"], "not broker ids"),
        (["run", "--throttle", "5"], "never get done"),
        (["plan", "--tolerance", "0"], "not a percentage"),
        (["plan", "--tolerance", "much"], "not a percentage"),
    ],
)
def test_wrong_values_are_explained(flags: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(*flags)


def test_a_wrong_pattern_is_refused_before_a_broker_is_asked() -> None:
    with pytest.raises(UsageError, match="--exclude-topics is not a regular expression"):
        _request(parse("plan", "--exclude-topics", "("))


def test_rates_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    file.write_text('{"my-topic-0": 12, "t-1": 3.5}')
    assert _rates(str(file)) == {TopicPartition("my-topic", 0): 12, TopicPartition("t", 1): 3.5}
    for wrong in ("[]", '{"t": 1}', '{"t-0": "much"}', "{"):
        file.write_text(wrong)
        with pytest.raises(CommandFailed, match="orders-0"):
            _rates(str(file))
