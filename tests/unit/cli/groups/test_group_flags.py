"""Flags of `consumer-groups`, `groups` and `transactions`, and the plans that resets follow."""

import argparse

import pytest

from odradek.cli.commands import module_name
from odradek.cli.groups import consumer_groups, groups
from odradek.cli.groups.group_names import GROUP_TYPES, parse_states, parse_types, who_is_active
from odradek.cli.groups.offset_plans import duration_ms, moment_ms, read_plans, write_plans
from odradek.cli.parser import load_tool
from odradek.cli.transactions import transactions
from odradek.protocol.types import TopicPartition
from odradek.tools.failures import CommandFailed, UsageError


def parse(command: str, *flags: str) -> argparse.Namespace:
    return load_tool(command, module_name(command))[1].parse_args(list(flags))


RESET = ("--reset-offsets", "--group", "g")


class TestConsumerGroups:
    @pytest.mark.parametrize(
        ("flags", "action"),
        [
            (("--list",), "list"),
            (("--list", "--state"), "list"),
            (("--list", "--state", "stable,empty", "--type", "classic"), "list"),
            (("--describe", "--group", "a", "--group", "b"), "describe"),
            (("--describe", "--all-groups", "--members", "--verbose"), "describe"),
            (("--describe", "--group", "a", "--state"), "describe"),
            (("--delete", "--group", "a"), "delete"),
            (("--delete-offsets", "--group", "a", "--topic", "t"), "delete_offsets"),
            ((*RESET, "--topic", "t:0,1", "--to-offset", "0"), "reset_offsets"),
            ((*RESET, "--all-topics", "--shift-by", "-3", "--execute"), "reset_offsets"),
            ((*RESET, "--from-file", "f", "--dry-run", "--export"), "reset_offsets"),
        ],
    )
    def test_what_is_asked(self, flags: tuple[str, ...], action: str) -> None:
        assert consumer_groups.chosen_action(parse("consumer-groups", *flags)) == action

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            ((), "exactly one of --list"),
            (("--list", "--describe"), "exactly one of --list"),
            (("--list", "--group", "g"), "lists all groups"),
            (("--list", "--state", "awake"), "'awake' is not a state of groups; there are Prep"),
            (("--list", "--type", "share"), "'share' is not a type of groups; there are Classic,"),
            (("--list", "--state", "stabel"), "a state of groups; did you mean Stable?"),
            (("--list", "--type", "clasic"), "a type of groups; did you mean Classic?"),
            (("--describe",), "needs --group ID or --all-groups"),
            (("--describe", "--group", "g", "--all-groups"), "cannot go together"),
            (("--describe", "--group", "g", "--members", "--state"), "one of --members"),
            (("--describe", "--group", "g", "--state", "stable"), "takes no value"),
            (("--describe", "--group", "g", "--topic", "t", "--members"), "leave --members"),
            (("--list", "--topic", "t"), "--describe --all-groups --topic NAME"),
            (("--describe", "--group", "g", "--execute"), "--execute goes with --reset-offsets"),
            (("--list", "--to-offset", "0"), "--to-offset goes with --reset-offsets"),
            (("--delete", "--group", "g", "--members"), "--members goes with --describe"),
            (("--delete", "--group", "g", "--topic", "t"), "--delete-offsets forgets"),
            (("--delete-offsets", "--group", "g"), "one --group ID and --topic NAME"),
            (("--delete-offsets", "--all-groups", "--topic", "t"), "needs --group ID"),
            ((*RESET, "--topic", "t"), "exactly one of --to-earliest"),
            ((*RESET, "--topic", "t", "--to-earliest", "--to-latest"), "exactly one of"),
            ((*RESET, "--to-earliest"), "needs --topic NAME or --all-topics"),
            ((*RESET, "--to-earliest", "--topic", "t", "--all-topics"), "cannot go together"),
            ((*RESET, "--from-file", "f", "--all-topics"), "names the topics itself"),
            ((*RESET, "--to-latest", "--all-topics", "--dry-run", "--execute"), "cannot go toge"),
        ],
    )
    def test_what_cannot_be(self, flags: tuple[str, ...], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            consumer_groups.chosen_action(parse("consumer-groups", *flags))

    def test_a_pattern_is_valid_or_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert consumer_groups.run(parse("consumer-groups", "--validate-regex", "a.*")) == 0
        assert capsys.readouterr().out == "The regular expression `a.*` is valid.\n"
        assert consumer_groups.run(parse("consumer-groups", "--validate-regex", "(a")) == 1
        assert capsys.readouterr().out.startswith("The regular expression `(a` is invalid: ")


class TestGroups:
    def test_states_and_types_in_any_case(self) -> None:
        assert parse_states("stable, EMPTY") == ["Stable", "Empty"]
        assert parse_types("Share", GROUP_TYPES) == ["Share"]
        assert parse_states("") == parse_states(None) == []

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            ((), "--list is needed"),
            (("--list", "--consumer", "--share"), "--consumer and --share cannot"),
            (("--list", "--consumer", "--protocol", "x"), "cannot be used with --group-type"),
            (("--list", "--group-type", "odd"), "there are Classic, Consumer, Share, Streams"),
        ],
    )
    def test_what_cannot_be(self, flags: tuple[str, ...], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            groups.run(parse("groups", *flags))

    def test_only_the_first_few_of_many_members_are_named(self) -> None:
        members = [(f"c{number}", "/10.0.0.1", number) for number in range(5)]
        assert who_is_active(members[:2]) == (
            "c0 at 10.0.0.1 (0 partitions), c1 at 10.0.0.1 (1 partition)"
        )
        assert who_is_active(members).endswith("c2 at 10.0.0.1 (2 partitions) and 2 more")


class TestTransactions:
    @pytest.mark.parametrize(
        "words",
        [
            ("list", "--duration-filter", "1000"),
            ("--bootstrap-server", "h:1", "describe", "--transactional-id", "x"),
            ("forceTerminateTransaction", "--transactionalId", "x"),
            ("describe-producers", "--topic", "t", "--partition", "0"),
            ("find-hanging", "--broker-id", "1"),
            ("abort", "--topic", "t", "--partition", "0", "--start-offset", "0"),
            ("abort", "--topic", "t", "--partition", "0", "--producer-id", "0",
             "--producer-epoch", "0", "--coordinator-epoch", "-1"),
        ],
    )  # fmt: skip
    def test_what_can_be_asked(self, words: tuple[str, ...]) -> None:
        transactions.check(parse("transactions", *words))

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            ((), "say what to do: list, describe"),
            (("list", "--topic", "t"), "--topic does not go with list"),
            (("describe",), "describe needs --transactional-id"),
            (("describe-producers", "--topic", "t"), "needs --topic and --partition"),
            (("find-hanging",), "--topic NAME or --broker-id"),
            (("find-hanging", "--broker-id", "1", "--partition", "0"), "needs --topic"),
            (("abort", "--topic", "t", "--partition", "0"), "needs --start-offset"),
            (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "--producer-ep"),
            (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1",
              "--start-offset", "0"), "says it all"),
        ],
    )  # fmt: skip
    def test_what_cannot_be(self, words: tuple[str, ...], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            transactions.check(parse("transactions", *words))


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [
            ("1970-01-01T00:00:01.500", 1500),
            ("1970-01-01T00:00:01Z", 1000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("2026-03-01T12:00:00.001", 1772366400001),
            ("1969-12-31T23:59:59.999", -1),
        ],
    )
    def test_moments(self, text: str, milliseconds: int) -> None:
        assert moment_ms(text) == milliseconds

    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [
            ("P1D", 86_400_000),
            ("PT2H30M", 9_000_000),
            ("P1DT1S", 86_401_000),
            ("pt0.5s", 500),
            ("PT1.25S", 1250),
            ("-PT1M", -60_000),
            ("PT-1M", -60_000),
            ("PT-1.5S", -1500),
        ],
    )
    def test_durations(self, text: str, milliseconds: int) -> None:
        assert duration_ms(text) == milliseconds

    def test_what_is_neither(self) -> None:
        for text in ("P", "PT", "1D", "P1W", "P1Y", "PT1", "P1DT", ""):
            with pytest.raises(UsageError, match="not like P1D"):
                duration_ms(text)
        for text in ("yesterday", "2026-13-01T00:00:00", "12:00"):
            with pytest.raises(UsageError, match="not like 2026-03-01"):
                moment_ms(text)


class TestPlans:
    def test_there_and_back(self) -> None:
        rows = [("a", TopicPartition("t", 0), 5), ("b", TopicPartition("u", 1), 6)]
        text = write_plans(rows, with_group=True)
        assert text == "a,t,0,5\nb,u,1,6\n"
        assert read_plans(text, "f", []) == {"a": {("t", 0): 5}, "b": {("u", 1): 6}}
        assert read_plans(write_plans(rows, with_group=False), "f", ["g"]) == {
            "g": {("t", 0): 5, ("u", 1): 6}
        }

    def test_empty_lines_and_spaces_do_not_matter(self) -> None:
        assert read_plans('\n"t", 0, 5\r\n\n', "f", ["g"]) == {"g": {("t", 0): 5}}

    @pytest.mark.parametrize(
        ("text", "named", "complaint"),
        [
            ("t,0,5\n", ["a", "b"], "^f: line 1, 't,0,5', is not topic"),
            ("t,0,5\nt,x,5\n", ["a"], "^f: line 2"),
            ("t,0\n", ["a"], "line 1"),
            ("t,0,5\nt,0,6\n", ["a"], "^f: line 2 names t-0 of 'a' again"),
            ("\n", ["a"], "^f names no partitions"),
        ],
    )
    def test_what_is_no_plan(self, text: str, named: list[str], complaint: str) -> None:
        with pytest.raises(CommandFailed, match=complaint):
            read_plans(text, "f", named)
