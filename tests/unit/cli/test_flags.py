"""What the flags of each tool mean, before anything is asked of a broker."""

import argparse
from pathlib import Path

import pytest

from odradek.cli.commands import module_name
from odradek.cli.parser import load_tool
from odradek.cli.perf import e2e_latency
from odradek.cli.records import console_consumer, console_producer
from odradek.cli.running import up
from odradek.cli.topics import configs, delete_records, get_offsets, log_dirs, quota_actions, topics
from odradek.tools import hints
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.topic_names import names_without_topic, topic_pattern


def parse(command: str, *flags: str) -> argparse.Namespace:
    return load_tool(command, module_name(command))[1].parse_args(list(flags))


@pytest.fixture(autouse=True)
def _no_hint_was_given_yet() -> None:
    hints._hinted.clear()


class TestConnection:
    def test_the_flag_wins_over_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP", "e:1")
        file = tmp_path / "client.properties"
        file.write_text("bootstrap.servers=f:1\nclient.id=file\nretries=5\n")
        arguments = parse(
            "topics", "--list", "--bootstrap-server", "b:1", "--command-config", str(file),
            "--command-property", "client.id=property",
        )  # fmt: skip
        assert client_properties(arguments, client_id="tool") == {
            "bootstrap.servers": "b:1",
            "client.id": "property",
            "retries": "5",
        }

    def test_serializers_of_bytes_and_text_ask_for_nothing_and_others_are_refused(self) -> None:
        java = "org.apache.kafka.common.serialization."
        arguments = parse(
            "topics", "--list", "--command-property", f"key.serializer={java}StringSerializer",
            "--command-property", f"value.deserializer={java}ByteArrayDeserializer",
        )  # fmt: skip
        assert set(client_properties(arguments)) == {"bootstrap.servers"}
        arguments.command_property = [("value.serializer", f"{java}LongSerializer")]
        with pytest.raises(UsageError, match="this tool moves bytes as they are"):
            client_properties(arguments)

    def test_then_the_environment_then_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP", "e:1")
        properties = client_properties(parse("topics", "--list"))
        assert properties == {"bootstrap.servers": "e:1"}
        monkeypatch.delenv("ODRADEK_BOOTSTRAP")
        properties = client_properties(parse("topics", "--list"))
        assert properties == {"bootstrap.servers": "127.0.0.1:9092"}

    def test_older_spellings_mean_the_same_and_give_a_hint(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = parse(
            "console-producer", "--topic", "t", "--broker-list", "old:1",
            "--producer-property", "acks=1", "--property", "parse.key=true",
            "--property", "key.separator=:", "--max-partition-memory-bytes", "10",
        )  # fmt: skip
        assert console_producer.producer_properties(arguments) == {
            "bootstrap.servers": "old:1",
            "acks": "1",
            "batch.size": "10",
            "client.id": "console-producer",
        }
        assert arguments.reader_property == [("parse.key", "true"), ("key.separator", ":")]
        hints = capsys.readouterr().err.splitlines()
        assert len(hints) == 4, "each is said once"
        assert hints[0] == "hint: --broker-list is an older spelling; use --bootstrap-server"

    def test_zookeeper_means_the_default_broker(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP", "e:1")
        arguments = parse("topics", "--list", "--zookeeper", "zk:2181")
        properties = client_properties(arguments)
        assert properties == {"bootstrap.servers": "e:1"}
        assert "asking the broker at e:1" in capsys.readouterr().err


class TestTopics:
    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            ([], "give exactly one of"),
            (["--list", "--describe"], "give exactly one of"),
            (["--create"], "--create needs --topic"),
            (["--delete"], "--delete needs --topic"),
            (["--alter", "--topic", "t"], "--alter needs --partitions"),
            (["--alter", "--topic", "t", "--config", "a=b"], "odradek configs --alter"),
            (["--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"],
             "already says"),
        ],
    )  # fmt: skip
    def test_flags_that_do_not_go_together(self, flags: list[str], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            topics.chosen_action(parse("topics", *flags))

    def test_replica_assignment(self) -> None:
        assert topics.replica_assignment("1:2,2:3") == [[1, 2], [2, 3]]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [("1:1", "twice"), ("1:2,3", "has 1 replica,"), ("a", "not broker ids")],
    )
    def test_impossible_assignments(self, text: str, complaint: str) -> None:
        with pytest.raises(argparse.ArgumentTypeError, match=complaint):
            topics.replica_assignment(text)

    def test_topic_patterns(self) -> None:
        assert topic_pattern("a.*").fullmatch("abc")
        assert not topic_pattern("a").fullmatch("abc")
        assert topic_pattern("a, b").fullmatch("b")
        with pytest.raises(UsageError, match="not a regular expression"):
            topic_pattern("(")


class TestConfigs:
    def test_pairs_with_brackets(self) -> None:
        assert configs.parse_added("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
        assert configs.parse_added("k=a=b") == {"k": "a=b"}

    @pytest.mark.parametrize("text", ["a", "=1", "a b=1"])
    def test_bad_pairs(self, text: str) -> None:
        with pytest.raises(UsageError, match="key=value"):
            configs.parse_added(text)

    @pytest.mark.parametrize(
        ("flags", "entity"),
        [
            (["--topic", "t"], ("topics", "t")),
            (["--broker", "1"], ("brokers", "1")),
            (["--broker-defaults"], ("brokers", "")),
            (["--entity-type", "topics", "--entity-name", "t"], ("topics", "t")),
            (["--entity-type", "brokers", "--entity-default"], ("brokers", "")),
            (["--entity-type", "topics"], ("topics", None)),
            (["--group", "g"], ("groups", "g")),
            (["--entity-type", "groups", "--entity-name", "g"], ("groups", "g")),
        ],
    )
    def test_whose_settings(self, flags: list[str], entity: tuple[str, str | None]) -> None:
        chosen = configs.chosen_entities(parse("configs", "--describe", *flags))
        assert configs.chosen_entity(chosen) == entity

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            ([], "whose settings"),
            (["--entity-type", "client-metrics", "--entity-default"], "no common default"),
            (["--broker", "x"], "a broker's id"),
            (["--topic", "a", "--broker", "1"], "at a time"),
            (["--entity-type", "topics", "--entity-default"], "no common default"),
            (["--entity-type", "groups", "--entity-default"], "no common default"),
        ],
    )
    def test_whose_settings_cannot_be(self, flags: list[str], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            configs.chosen_entity(configs.chosen_entities(parse("configs", "--describe", *flags)))

    @pytest.mark.parametrize(
        ("flags", "names"),
        [
            (["--user", "ada"], {"user": "ada"}),
            (["--user-defaults", "--client-id", "app"], {"user": "", "client-id": "app"}),
            (["--client", "app", "--user", "ada"], {"user": "ada", "client-id": "app"}),
            (["--entity-type", "ips", "--entity-default"], {"ip": ""}),
            (["--entity-type", "users", "--entity-type", "clients"],
             {"user": None, "client-id": None}),
            (["--entity-type", "users", "--entity-default", "--entity-type", "clients",
              "--entity-name", "app"], {"user": "", "client-id": "app"}),
            (["--entity-type", "clients", "--entity-name", "app", "--entity-type", "user",
              "--entity-default"], {"user": "", "client-id": "app"}),
        ],
    )  # fmt: skip
    def test_whose_quotas(self, flags: list[str], names: dict[str, str | None]) -> None:
        chosen = configs.chosen_entities(parse("configs", "--describe", *flags))
        assert {kind.value: name for kind, name in quota_actions._names(chosen).items()} == names

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (["--user", "u", "--topic", "t"], "ask for them alone"),
            (["--user", "u", "--user-defaults"], "not two"),
            (["--ip", "192.0.2.1", "--user", "u"], "cannot name a user"),
            (["--entity-type", "users"], "needs the name"),
            (["--ip", "localhost"], "not an IP address"),
            (["--user", "u", "--add-config", "producer_byte_rat=1"], "did you mean"),
            (["--user", "u", "--add-config", "producer_byte_rate=fast"], "is a number"),
            (["--user", "u", "--add-config", "connection_creation_rate=1"], "has no quota"),
        ],
    )
    def test_quotas_that_cannot_be(self, flags: list[str], complaint: str) -> None:
        given = flags if "--add-config" in flags else [*flags, "--delete-config", "x"]
        with pytest.raises(UsageError, match=complaint):
            configs.run(parse("configs", "--alter", *given))

    def test_changes_from_file_and_flags(self, tmp_path: Path) -> None:
        file = tmp_path / "topic.properties"
        file.write_text("a=1\nb=2\n")
        arguments = parse(
            "configs", "--alter", "--topic", "t", "--add-config-file", str(file),
            "--add-config", "b=3", "--delete-config", "c,d",
        )  # fmt: skip
        assert configs.chosen_changes(arguments) == ({"a": "1", "b": "3"}, ["c", "d"])

    def test_a_setting_cannot_be_added_and_deleted(self) -> None:
        arguments = parse(
            "configs", "--alter", "--topic", "t", "--add-config", "a=1", "--delete-config", "a"
        )
        with pytest.raises(UsageError, match="both added and deleted"):
            configs.chosen_changes(arguments)


class TestGetOffsets:
    @pytest.mark.parametrize(
        ("text", "time"),
        [("latest", -1), ("-2", -2), ("max-timestamp", -3), ("1700000000000", 1700000000000)],
    )
    def test_times(self, text: str, time: int) -> None:
        assert parse("get-offsets", "--time", text).time == time

    def test_a_time_that_is_none(self) -> None:
        for text in ("yesterday", "-9"):
            with pytest.raises(UsageError, match="neither a time"):
                parse("get-offsets", "--time", text)

    @pytest.mark.parametrize(
        ("pattern", "topic", "partitions"),
        [
            ("t:2", "t", [2]),
            ("t:1-3", "t", [1, 2]),
            ("t:2-", "t", [2, 3, 4]),
            ("t:-2", "t", [0, 1]),
            ("t", "t", [0, 1, 2, 3, 4]),
            (":0", "any", [0]),
            ("x,t.*:4", "tx", [4]),
        ],
    )
    def test_patterns(self, pattern: str, topic: str, partitions: list[int]) -> None:
        wanted = get_offsets.chosen_filter(parse("get-offsets", "--topic-partitions", pattern))
        assert [number for number in range(5) if wanted(topic, number)] == partitions

    def test_topic_and_partitions(self) -> None:
        wanted = get_offsets.chosen_filter(
            parse("get-offsets", "--topic", "a.*", "--partitions", "0,2")
        )
        assert [n for n in range(4) if wanted("ab", n)] == [0, 2]
        assert not wanted("b", 0)

    def test_not_both(self) -> None:
        with pytest.raises(UsageError, match="cannot be used with"):
            get_offsets.chosen_filter(
                parse("get-offsets", "--topic", "a", "--topic-partitions", "b")
            )


class TestConsole:
    @pytest.mark.parametrize(
        ("flags", "offset"),
        [
            ([], -1),
            (["--from-beginning"], -2),
            (["--partition", "0", "--offset", "earliest"], -2),
            (["--partition", "0", "--offset", "12"], 12),
        ],
    )
    def test_where_to_start(self, flags: list[str], offset: int) -> None:
        arguments = parse("console-consumer", "--topic", "t", *flags)
        assert console_consumer.starting_offset(arguments) == offset

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (["--offset", "1"], "--offset needs --partition"),
            (["--partition", "0", "--offset", "x"], "a number, earliest or latest"),
            (["--partition", "0", "--offset", "1", "--from-beginning"], "not both"),
        ],
    )
    def test_where_not_to_start(self, flags: list[str], complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            console_consumer.starting_offset(parse("console-consumer", "--topic", "t", *flags))

    def test_a_group_begins_where_it_stopped_or_where_asked(self) -> None:
        flags = ("console-consumer", "--topic", "t", "--group", "g")
        properties = console_consumer.consumer_properties(parse(*flags))
        assert properties["group.id"] == "g"
        assert "auto.offset.reset" not in properties
        properties = console_consumer.consumer_properties(parse(*flags, "--from-beginning"))
        assert properties["auto.offset.reset"] == "earliest"

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (["--partition", "0"], "the group assigns partitions"),
            (["--command-property", "group.id=other"], "contradict"),
            (["--from-beginning", "--command-property", "auto.offset.reset=none"], "contradict"),
        ],
    )
    def test_what_a_group_cannot_be(self, flags: list[str], complaint: str) -> None:
        arguments = parse("console-consumer", "--topic", "t", "--group", "g", *flags)
        with pytest.raises(UsageError, match=complaint):
            console_consumer.consumer_properties(arguments)

    @pytest.mark.parametrize(
        "flags",
        [
            ("--formatter-property", "print.key=true"),
            ("--formatter-config", "formatter.properties"),
            ("--key-deserializer", "LongDeserializer"),
            ("--value-deserializer", "LongDeserializer"),
        ],
    )
    def test_json_refuses_flags_that_it_would_ignore(self, flags: tuple[str, str]) -> None:
        arguments = parse("console-consumer", "--topic", "t", "--json", *flags)
        with pytest.raises(UsageError, match=f"--json and {flags[0]} cannot be used together"):
            console_consumer.check_arguments(arguments)

    def test_a_codec_without_value_is_gzip(self) -> None:
        arguments = parse("console-producer", "--topic", "t", "--compression-codec")
        assert console_producer.producer_properties(arguments)["compression.type"] == "gzip"

    def test_a_property_wins_over_a_flag(self) -> None:
        arguments = parse(
            "console-producer", "--topic", "t", "--request-required-acks", "-1",
            "--command-property", "acks=0",
        )  # fmt: skip
        assert console_producer.producer_properties(arguments)["acks"] == "0"


ENTRY = '{"topic": "t", "partition": 0, "offset": 1}'


def partitions(*entries: str) -> str:
    return '{"partitions": [' + ", ".join(entries) + "]}"


class TestDeleteRecords:
    def test_the_file(self) -> None:
        text = '{"partitions": [{"topic": "t", "partition": 1, "offset": 5}]}'
        assert delete_records.parse_offsets(text, "f") == {("t", 1): 5}

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("{", "^f is not JSON: .*; write {"),
            ("[]", '^f has no "partitions"; write {'),
            (partitions("5"), "^f: 5 is not an entry"),
            (partitions('{"topic": "t"}'), '^f: "partition" is missing in {'),
            (partitions(ENTRY).replace("}]", '}], "version": 2'), "^f has version 2"),
            (partitions(), '^f has no "partitions"'),
            (partitions(ENTRY, ENTRY), "^f has t-0 twice"),
            (partitions(ENTRY.replace("1", '"x"')), '^f: "offset" is "x", where a'),
            (partitions(ENTRY.replace("1", "1.5")), '^f: "offset" is 1.5, where a'),
            (partitions(ENTRY.replace("1", "-2")), "^f: t-0 has no offset -2"),
            (partitions(ENTRY.replace('"t"', "null")), '^f: "topic" is null, where'),
        ],
    )
    def test_a_file_that_is_not_right(self, text: str, complaint: str) -> None:
        with pytest.raises(CommandFailed, match=complaint):
            delete_records.parse_offsets(text, "f")


class TestLatency:
    def test_the_older_form_by_position(self) -> None:
        arguments = parse("e2e-latency", "h:1", "t", "10", "all", "100", "file")
        e2e_latency.take_positions(arguments)
        assert arguments.bootstrap_server == "h:1"
        assert (arguments.topic, arguments.num_records, arguments.record_size) == ("t", 10, 100)
        assert arguments.command_config == "file"

    def test_missing_flags_are_named(self) -> None:
        with pytest.raises(UsageError, match="--num-records is needed"):
            e2e_latency.take_positions(parse("e2e-latency", "--topic", "t"))
        with pytest.raises(UsageError, match="without flags it takes"):
            e2e_latency.take_positions(parse("e2e-latency", "h:1", "t"))


def test_log_dirs_keeps_kafkas_meaning_of_broker_list() -> None:
    arguments = parse("log-dirs", "--describe", "--broker-list", "1,2")
    assert log_dirs.broker_ids(arguments.broker_list) == [1, 2]
    with pytest.raises(UsageError, match="ids with commas"):
        log_dirs.broker_ids("one")


def test_up_listens_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JMX_PORT", "9999")
    arguments = parse("up", "--port", "0", "--host", "::1", "--data", "d")
    assert up.properties_for(arguments) == {
        "management.listener": "http://127.0.0.1:9999",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "listeners": "PLAINTEXT://[::1]:0",
        "log.dirs": "d",
    }
    with pytest.raises(UsageError, match="ports go from 0 to 65535"):
        parse("up", "--port", "70000")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("orders,oders", ["oders"]),
        ("orders,pay.*", []),
        ("orders,nope.*|x", []),
        ("a,b", []),
        ("orders", []),
    ],
)
def test_names_of_a_list_without_a_topic_are_told(text: str, missing: list[str]) -> None:
    assert names_without_topic(text, ["orders", "payments", "a", "b"]) == missing
