"""Mistakes that a person makes who knows Kafka from books, and the line that mends each."""

import asyncio
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.cli.running import up
from odradek.local import background
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
        # A place with a flag where the tool has none, and other names of the same flag.
        ("server-stop --data /x", "there is no --data; write odradek server-stop /x"),
        ("server-stop -data /x", "there is no -data; write odradek server-stop /x"),
        ("logs --dir /x", "there is no --dir; write odradek logs /x"),
        ("broker --config a.properties", "write odradek broker a.properties"),
        ("schema list --url http://a:1", "unknown flag --url; did you mean --registry?"),
        ("connect list --url http://a:1", "unknown flag --url; did you mean --worker?"),
        ("sql --url http://a:1", "unknown flag --url; did you mean --server?"),
        ("jmx --url http://a:1", "unknown flag --url; did you mean --jmx-url?"),
        ("share-groups --list", "until then: odradek consumer-groups"),
        # A value with spaces.
        ("console-producer --topic my topic", "needs quotes: --topic 'my topic'"),
        ("consumer-groups --describe --group my own group", "quotes: --group 'my own group'"),
        (
            "configs --alter --topic a --add-config retention.ms=1 000",
            "A value with spaces needs quotes: --add-config 'retention.ms=1 000'",
        ),
        ("topics create --topic a", "unexpected 'create'; did you mean --create?"),
        ("topics --describe orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("console-producer orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("console-consumer orders", "unexpected 'orders'; did you mean --topic orders?"),
        ("consumer-groups list", "unexpected 'list'; did you mean --list?"),
        ("topics --list --bootstrap-server a:1 b:1", "write several addresses with commas"),
        ("topics --create --topic a retention.ms=1", "did you mean --config retention.ms=1?"),
        ("configs --alter --topic a retention.ms=1", "mean --add-config retention.ms=1?"),
        ("up log.retention.hours=1", "did you mean --override log.retention.hours=1?"),
        ("console-consumer --topic a print.key=true", "mean --formatter-property print.key=true?"),
        ("get --topic state ada", "unexpected 'ada'; did you mean --key ada?"),
        ("cluster decommission 1", "unexpected '1'; did you mean --id 1?"),
        ("dump-log odradek-data", "unexpected 'odradek-data'; did you mean --files odradek-data?"),
        ("sql LIST;", "unexpected 'LIST;'; did you mean --execute 'LIST;'?"),
        # A command that is a verb.
        ("stop", "no command 'stop'; type Ctrl-C where `odradek up` runs, odradek local stop, or"),
        ("start", "no command 'start'; type odradek up"),
        ("consume", "type odradek console-consumer --topic NAME --from-beginning"),
        ("create-topic orders", "type odradek topics --create --topic NAME"),
        ("control-center-start x", "type odradek console, which serves pages for a browser"),
        ("kafka-consumer-offset-checker", "type odradek consumer-groups --describe --group ID"),
        ("jmx --bootstrap-server a:1", "not a broker; name it with --jmx-url http://host:port"),
        ("kafka-metadata-shell.sh -s x", "`odradek zookeeper-shell DIR ls /` shows it"),
        (
            "kafka-streams-application-reset.sh --application-id x",
            "odradek consumer-groups --reset-offsets --group APPLICATION_ID",
        ),
        # A flag for which there is no need.
        ("console-producer --topic a --file x.txt", "odradek console-producer --topic NAME < FILE"),
        ("console-producer --topic a --message hi", "echo hello | odradek console-producer --topi"),
        ("console-producer --topic a --key k", "--reader-property parse.key=true --reader-prope"),
        ("topics --purge --topic a", "odradek delete-records deletes records and keeps the topic"),
        ("delete-records --topic a", 'a file says which: echo \'{"partitions": [{"topic"'),
        ("transactions --list", "unknown flag --list; did you mean odradek transactions list?"),
        ("broker --port 9095", "write --override listeners=PLAINTEXT://127.0.0.1:9095"),
        ("restore --topic a --to arc", "--from DIRECTORY names the archive"),
        ("local grow d1", "did you mean --data d1?"),
        ("topics --list --zookeeper", "--zookeeper: needs a value"),
        ("archive --topic a --to x --follow=y", "--follow: takes no value, and was given 'y'"),
        ("archive --topic a.* --to x", "for a pattern: --include 'a.*'"),
        (
            "consumer-groups --reset-offsets --group g --topic t --to-offset earliest",
            "write --to-earliest",
        ),
        ("completion --help-me", "SHELL is needed"),
        ("pipeline clicks.toml", "did you mean run clicks.toml?"),
        ("server-stop nothere", "`odradek server-stop` alone stops the broker of this directory"),
        ("topics --zzz", "unknown flag --zzz; odradek topics --help shows the flags"),
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
        ("broker nofile.properties", "; name one with a broker"),
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
        ("console-consumer --topic ord.*", "for a pattern: --include 'ord.*'"),
        (
            "console-consumer --topic a --from-beginning --command-property auto.offset.reset=none",
            "--from-beginning and auto.offset.reset=none contradict",
        ),
        (
            "configs --alter --topic a --add-config retention.ms 5",
            "unexpected '5'; write --add-config retention.ms=5",
        ),
        (
            "console-consumer --topic a --max-messages -3",
            "give a number of records; -1 means no limit",
        ),
        ("console-consumer --topic a --formatter json", "; --json prints records as JSON"),
        ("console-consumer --topic a --group=", "--group needs the name of a group"),
        (
            "acls --add --topic t --allow-principal user:alice",
            "would apply to nobody: write User:alice",
        ),
        (
            "acls --add --topic t --allow-principal User:a,User:b",
            "'User:a,User:b' is one principal; repeat the flag",
        ),
        ("topics --list --bootstrap-server=", "--bootstrap-server is empty; name brokers"),
        ("up --data=", "--data: it is empty; name a directory"),
        ("local start --data=", "--data: it is empty; name a directory"),
        ("connect-standalone --log-level WARN", "odradek connect-standalone: WORKER is needed"),
        ("shims pyproject.toml", "pyproject.toml is a file; name a directory for the scripts"),
        # A word behind a flag.
        ("secrets decrypt --key-file nofile x", "there is no file nofile"),
        ("schema --registry http://h get", "write: odradek schema get SUBJECT"),
        ("sql http://127.0.0.1:8088", "did you mean --server http://127.0.0.1:8088?"),
        ("connect delete", "write: odradek connect delete NAME"),
        (
            "delegation-tokens --create --max-life-time-period week",
            "'week' is not a whole number",
        ),
        (
            "console-consumer --topic a --formatter kafka.Manager$OffsetsMessageFormatter",
            "odradek consumer-groups --describe --group ID shows offsets",
        ),
        ("topics --list --command-config .", ". is a directory; name a file"),
    ],
)
def test_the_line_says_what_to_write(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) in {1, 2}
    said = capsys.readouterr().err
    assert answer in said
    assert said.count("\n") == 1


def test_the_version_is_shown_by_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--version"], ["-v"], ["topics", "--version"], ["kafka-acls.sh", "--version"]):
        assert main(words) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1


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
    assert "a secured cluster needs --command-config FILE" in said


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


def test_the_command_for_a_free_port_stays_secure(
    odradek_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --secure the command that a user copies would start an open broker."""
    port = odradek_cluster.bootstrap.rpartition(":")[2]
    for flags in (["--secure"], ["--secure", "--brokers", "3"]):
        assert main(["up", *flags, "--port", port, "--data", str(tmp_path / "data")]) == 1
        assert f"with `odradek up {' '.join(flags)} --port " in capsys.readouterr().err


def test_a_password_in_another_form_is_not_shown(
    odradek_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    alter = ["configs", "--alter", "--user", "ada", "--bootstrap-server"]
    alter += [odradek_cluster.bootstrap, "--add-config"]
    for text, words in (
        ("password=hunter2", "SCRAM-SHA-512=[password=...]"),
        ("SCRAM-SHA512=[password=hunter2]", "there are SCRAM-SHA-256 and SCRAM-SHA-512"),
        ("scram-sha-512=[password=hunter2]", "there are SCRAM-SHA-256 and SCRAM-SHA-512"),
    ):
        assert main([*alter, text]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert "hunter2" not in said


def test_a_cluster_whose_port_is_in_use_leaves_no_directories(
    odradek_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single broker would take an empty `broker-1` for a partition of a topic `broker`."""
    port = odradek_cluster.bootstrap.rpartition(":")[2]
    data = tmp_path / "data"
    assert main(["up", "--brokers", "3", "--port", port, "--data", str(data)]) == 1
    said = capsys.readouterr().err
    assert f"a broker runs at 127.0.0.1:{port} already: use it" in said
    assert "with `odradek up --brokers 3 --port " in said
    assert not data.exists()


def test_a_file_in_place_of_the_directory_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert main(["up", "--port", "0", "--data", str(path)]) == 1
    assert f"cannot write to {path}: there is a file of that name" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["broker", "storage format --config"])
def test_a_broker_is_not_started_from_another_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "positions.csv"
    path.write_text("group,t,0,5\n")
    assert main([*command.split(), str(path)]) == 1
    assert f"{path} has no setting that a broker knows" in capsys.readouterr().err


def test_the_flag_of_the_new_consumer_is_still_taken(
    closed_port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ["--bootstrap-server", f"127.0.0.1:{closed_port}"]
    for command in (
        ["consumer-groups", "--list"],
        ["consumer-perf-test", "--topic", "t", "--num-records", "1"],
    ):
        monkeypatch.setattr(hints, "_hinted", set())
        assert main([*command, "--new-consumer", *at]) == 1
        said = capsys.readouterr().err
        assert "hint: --new-consumer is an older spelling; use it no longer" in said
        assert "or correct --bootstrap-server" in said


@pytest.mark.parametrize("answer", [KeyboardInterrupt, EOFError, "no", "maybe"])
def test_a_question_is_asked_where_ctrl_c_ends_it(
    answer: str | type[BaseException],
    closed_port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an event loop Ctrl-C would cancel a task, and the tool would wait for an answer still."""

    def typed(*_: object) -> str:
        assert asyncio._get_running_loop() is None
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr(hints, "_hinted", set())
    monkeypatch.setattr("builtins.input", typed)
    at = ["--bootstrap-server", f"127.0.0.1:{closed_port}"]
    code = main(["acls", "--remove", "--topic", "t", *at])
    assert code == (130 if answer is KeyboardInterrupt else 1)
    said = capsys.readouterr().err
    assert ("hint: nothing was removed" in said) == isinstance(answer, str)
    assert "connect" not in said


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
    assert main(["configs", "--describe", "--topic", "my topic!", *at]) == 1
    said = capsys.readouterr().err
    assert said == (
        "odradek configs: 'my topic!' cannot be the name of a topic: it has letters, digits, '.',"
        " '_' and '-', at most 249; did you mean my-topic?\n"
    )


def test_flags_that_have_no_effect_beside_others_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_hinted", set())
    monkeypatch.setattr(up, "_run_brokers", lambda _: 0)
    assert main(["up"]) == 0
    assert not capsys.readouterr().err
    assert main(["up", "--memory", "--data", "x", "--registry-port", "9000"]) == 0
    assert capsys.readouterr().err == (
        "hint: --memory keeps nothing on disk: --data x is not used\n"
        "hint: --registry-port has no effect without --platform\n"
    )


def test_a_place_without_a_cluster_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_hinted", set())
    monkeypatch.chdir(tmp_path)
    assert main(["local", "status"]) == 3
    said = capsys.readouterr()
    assert said.out == f"There is no cluster in {tmp_path}/odradek-local.\n"
    assert said.err == "hint: odradek local start --data odradek-local starts one\n"
    monkeypatch.setattr(
        background, "running_broker", lambda _, place: 1 if place.endswith("-data") else None
    )
    assert main(["local", "stop"]) == 1
    assert "a broker runs in odradek-data: odradek server-stop odradek-data stops it" in (
        capsys.readouterr().err
    )


def test_a_file_that_is_not_named_as_a_segment_says_how_to_name_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copy.log").write_bytes(b"")
    assert main(["dump-log", "--files", f"{tmp_path}/copy.log"]) == 1
    assert "name it as in a log directory, such as 00000000000000000000.log" in (
        capsys.readouterr().err
    )
