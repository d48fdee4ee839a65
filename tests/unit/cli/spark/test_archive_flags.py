import pytest

from odradek.cli.parser import parser_of
from odradek.cli.spark import archive, restore
from odradek.tools.failures import UsageError


def _checked(*flags: str) -> None:
    archive.check(parser_of("archive", archive).parse_args(["--to", "/x", *flags]))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "give --topic NAME, or --include PATTERN"),
        (("--topic", "a", "--include", "b"), "give --topic NAME, or --include PATTERN"),
        (("--list", "--check"), "give --list or --check, not both"),
        (("--merge", "--topic", "a"), "leave out --topic"),
        (("--check", "--follow"), "--follow cannot be used with it"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        _checked(*flags)


def test_flags_become_options_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)
    parser = parser_of("archive", archive)
    given = ["--to", "/x", "--include", "a.*", "--command-property", "check.crcs=false"]
    assert archive.source_options(parser.parse_args(given)) == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.client.id": "odradek-archive",
        "kafka.check.crcs": "false",
        "kafka.isolation.level": "read_committed",
        "subscribePattern": "a.*",
    }


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T01:00+01:00", 0),
        ("1763190000000", 1763190000000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, time_ms: int) -> None:
    parser = parser_of("restore", restore)
    given = parser.parse_args(["--from", "/x", "--topic", "t", "--since", text])
    assert given.since == time_ms


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="'yesterday' is not a time"):
        parser_of("restore", restore).parse_args(
            ["--from", "/x", "--topic", "t", "--until", "yesterday"]
        )
