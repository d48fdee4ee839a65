"""Mistakes that a person makes who knows Kafka from books, and the line that mends each."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.local.busy_ports import port_in_use
from odradek.testing import Cluster
from odradek.tools import hints


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        # A word without its flag.
        ("topics create --topic a", "unexpected 'create'; did you mean --create?"),
        ("topics --describe orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("console-producer orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("console-consumer orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("consumer-groups list", "unexpected 'list'; did you mean --list?"),
        ("topics --list --bootstrap-server a:1 b:1", "write several addresses with commas"),
        # An action of another tool.
        ("configs --list", "did you mean --describe?"),
        ("consumer-groups --delete --all", "did you mean --all-groups?"),
        ("acls --grant --topic t", "did you mean --add?"),
        ("reassign-partitions --describe", "did you mean --list?"),
        (
            "topics --alter --topic orders --replication-factor 2",
            "reassign-partitions --generate --topic orders --replication-factor 2 --broker-list",
        ),
        ("producer-perf-test --topic t --record-size 5", "--num-records, --throughput are needed"),
        (
            "producer-perf-test --topic t --num-records 1 --record-size 5 --throughput max",
            "--throughput: not a number: 'max'",
        ),
        ("archive --path /tmp/x --topic t", "unknown flag --path; did you mean --to?"),
        ("restore --path /tmp/x --topic t", "unknown flag --path; did you mean --from?"),
        # A word that is none of those that there are.
        ("recipe click", "'click' is none of sensors, clicks,"),
        ("recipe click", "; did you mean clicks?"),
        ("pipeline start a.py", "'start' is none of run, list, status, stop; did you mean run?"),
        ("local run", "'run' is none of start, stop, status, grow; did you mean start?"),
        (
            "leader-election --election-type preferd --all-topic-partitions",
            "--election-type: 'preferd' is none of preferred, unclean; did you mean preferred?",
        ),
        ("broker nofile.properties", "there is no file nofile.properties; name one with a broker"),
        ("reassign-partitions --execute", "a plan like the one that --generate proposes"),
        # Values.
        (
            "configs --alter --topic t --add-config cleanup.policy=compact,delete",
            "write commas of a value in brackets: key=[a,b]",
        ),
        ("topics --list --bootstrap-server :9", "--bootstrap-server ':9': ':9' must be like host"),
        ("console-producer --topic t --request-required-acks two", "--request-required-acks 'two'"),
        (
            "console-producer --topic t --reader-property parse.key=yes",
            "reader property parse.key is true or false, not 'yes'",
        ),
        (
            "console-producer --topic t --reader-property key.separator=",
            "reader property key.separator has no value",
        ),
        (
            "console-consumer --topic t --formatter-property print.key=1",
            "formatter property print.key is true or false, not '1'",
        ),
        ("console-consumer --topic a,b", "--topic takes one topic; for several: --include 'a,b'"),
        ("console-consumer --topic a --group=", "--group needs the name of a group"),
        (
            "acls --add --topic t --allow-principal user:alice",
            "would apply to nobody: write User:alice",
        ),
        (
            "acls --add --topic t --allow-principal User:a,User:b",
            "'User:a,User:b' is one principal; repeat the flag",
        ),
    ],
)
def test_the_line_says_what_to_write(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) in {1, 2}
    said = capsys.readouterr().err
    assert answer in said
    assert said.count("\n") == 1


def test_a_file_of_settings_that_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.csv"
    path.write_text('"group","t",0,5\n')
    assert main(["configs", "--alter", "--topic", "t", "--add-config-file", str(path)]) == 2
    assert f"{path}: " in capsys.readouterr().err


def test_a_misspelt_file_of_settings_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.properties").write_text("log.dirs=a\n")
    assert main(["broker", str(tmp_path / "servr.properties")]) == 1
    assert f"did you mean {tmp_path}/server.properties?" in capsys.readouterr().err


def test_a_port_of_another_program_gets_no_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """It closes each connection at once, so it is not known what it is."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"

        def close_each() -> None:
            with suppress(OSError):
                while True:
                    other.accept()[0].close()

        threading.Thread(target=close_each, daemon=True).start()
        assert main(["topics", "--list", "--bootstrap-server", address]) == 1
        other.shutdown(socket.SHUT_RDWR)
    said = capsys.readouterr().err
    assert "odradek up" not in said
    assert "? Check that brokers run, and that --bootstrap-server has their addresses" in said


def test_a_port_in_use_is_answered_with_a_free_one(odradek_cluster: Cluster) -> None:
    host, _, port = odradek_cluster.bootstrap.rpartition(":")
    said = port_in_use(host, int(port))
    assert f"a broker runs at {host}:{port} already: use it" in said
    assert "`odradek up --port " in said
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = int(other.getsockname()[1])
        said = port_in_use("127.0.0.1", number)
    assert said.startswith(f"port {number} is in use by another program; start the broker")


def test_a_broker_is_not_started_from_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "positions.csv"
    path.write_text("group,t,0,5\n")
    assert main(["broker", str(path)]) == 1
    assert f"{path} has no setting that a broker knows" in capsys.readouterr().err


def test_sizes_and_lists_are_taken(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """They get as far as the broker, which is not there."""
    at = ["--bootstrap-server", f"127.0.0.1:{closed_port}"]
    rule = ["--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Read,Write"]
    assert main(["acls", *rule, *at]) == 1
    assert "connection refused" in capsys.readouterr().err


def test_rules_that_do_not_mean_what_they_seem_are_hinted_at(
    closed_port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_hinted", set())
    flags = ["--topic", "orders-*", "--allow-principal", "User:a", "--allow-host", "10.0.0.0/8"]
    main(["acls", "--add", *flags, "--bootstrap-server", f"127.0.0.1:{closed_port}"])
    said = capsys.readouterr().err
    assert "hint: only * alone stands for all names; for those that begin with orders- give" in said
    assert "hint: brokers compare addresses of clients, like 10.0.0.7, with 10.0.0.0/8" in said


def test_on_a_broker(odradek_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--bootstrap-server", odradek_cluster.bootstrap]
    create = ["topics", "--create", "--topic", "mistaken", "--config", "retention=5", *at]
    assert main(create) == 1
    said = capsys.readouterr().err
    assert (
        said == "odradek topics: there is no topic setting retention; did you mean retention.ms?\n"
    )
    main(["configs", "--alter", "--broker-defaults", "--add-config", "num.io.threads=9", *at])
    assert "hint: num.io.threads has no effect: " in capsys.readouterr().err
    main(["configs", "--alter", "--broker-defaults", "--delete-config", "num.io.threads", *at])
    assert main(["configs", "--describe", "--topic", ".*", *at]) == 1
    assert "'.*' cannot be the name of a topic" in capsys.readouterr().err
