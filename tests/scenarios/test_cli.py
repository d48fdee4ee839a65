"""The tools as a user types them: real processes against a real broker."""

import json
import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from odradek.testing import Cluster
from tests.scenarios.up_process import COMMAND, running


class Shell:
    """Runs `odradek` as a process of its own, pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._environment = {**os.environ, "ODRADEK_BOOTSTRAP": bootstrap}
        self._environment.pop("ODRADEK_DEBUG", None)

    def __call__(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def started(self, *words: str) -> "AbstractContextManager[subprocess.Popen[str]]":
        """A tool that goes on until it is told to stop."""
        return running(*words, environment=self._environment)

    def ok(self, *words: str, stdin: str = "") -> str:
        """What it printed; it must have succeeded."""
        done = self(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: str, code: int = 1, stdin: str = "") -> str:
        """The one line of its complaint; it must have failed, and printed nothing else."""
        done = self(*words, stdin=stdin)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.endswith("\n")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def odradek(odradek_cluster: Cluster) -> Shell:
    return Shell(odradek_cluster.bootstrap)


def test_the_life_of_a_topic(odradek: Shell) -> None:
    created = odradek.ok("topics", "--create", "--topic", "helloworld", "--partitions", "3")
    assert created == "Created topic helloworld.\n"
    assert "helloworld" in odradek.ok("topics", "--list").splitlines()
    topic, *partitions = odradek.ok("topics", "--describe", "--topic", "helloworld").splitlines()
    assert topic.startswith("Topic: helloworld\tTopicId: ")
    assert "\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: " in topic
    assert partitions == [
        f"\tTopic: helloworld\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1"
        "\tElr: \tLastKnownElr: "
        for number in range(3)
    ]
    odradek.ok("topics", "--alter", "--topic", "helloworld", "--partitions", "5")
    (described,) = json.loads(odradek.ok("topics", "--describe", "--topic", "hello.*", "--json"))
    assert described["partitionCount"] == 5
    assert odradek.ok("topics", "--delete", "--topic", "helloworld") == (
        "Deleted topic helloworld.\n"
    )
    assert "helloworld" not in odradek.ok("topics", "--list").splitlines()


def test_creating_a_topic_again(odradek: Shell, odradek_topic: str) -> None:
    complaint = odradek.refused("topics", "--create", "--topic", odradek_topic)
    assert "exists already" in complaint
    assert odradek.ok("topics", "--create", "--topic", odradek_topic, "--if-not-exists") == ""


def test_topics_with_settings_of_their_own(odradek: Shell) -> None:
    odradek.ok("topics", "--create", "--topic", "kept", "--config", "retention.ms=1000",
               "--config", "cleanup.policy=compact,delete")  # fmt: skip
    shown = odradek.ok("topics", "--describe", "--topics-with-overrides", "--topic", "kept")
    assert shown.count("\n") == 1
    assert "retention.ms=1000" in shown
    assert "cleanup.policy=compact,delete" in shown


def test_nothing_is_wrong_with_the_replicas_of_a_lone_broker(
    odradek: Shell, odradek_topic: str
) -> None:
    for flag in ("under-replicated", "unavailable", "under-min-isr"):
        shown = odradek.ok("topics", "--describe", "--topic", odradek_topic, f"--{flag}-partitions")
        assert shown == ""
    at_min = odradek.ok("topics", "--describe", "--topic", odradek_topic, "--at-min-isr-partitions")
    assert at_min.startswith(f"\tTopic: {odradek_topic}\tPartition: 0")


def test_an_unknown_topic_is_one_clear_line(
    odradek: Shell, odradek_topic: str, tmp_path: Path
) -> None:
    entry = {"topic": "no-such", "partition": 0, "offset": 1, "replicas": [1]}
    path = tmp_path / "partitions.json"
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    plan = ("--reassignment-json-file", str(path))
    for words in (
        ("delete-records", "--offset-json-file", str(path)),
        ("get-offsets", "--topic-partitions", "no-such:0"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file", str(path)),
        (
            "leader-election",
            "--election-type",
            "preferred",
            "--topic",
            "no-such",
            "--partition",
            "0",
        ),
        ("log-dirs", "--describe", "--topic-list", "no-such"),
        ("reassign-partitions", "--cancel", *plan),
        ("reassign-partitions", "--execute", *plan),
        ("reassign-partitions", "--verify", *plan),
        ("replica-verification", "--topics-include", "no-such"),
        ("topics", "--describe", "--topic", "no-such"),
        ("topics", "--delete", "--topic", "no-such"),
        ("console-consumer", "--topic", "no-such", "--from-beginning"),
        ("configs", "--describe", "--topic", "no-such"),
        ("configs", "--alter", "--topic", "no-such", "--add-config", "retention.ms=1"),
        ("get-offsets", "--topic", "no-such"),
        ("verifiable-consumer", "--topic", "no-such"),
    ):
        assert "topic 'no-such' does not exist" in odradek.refused(*words), words
    nearly = odradek_topic[:-1] + "_"
    assert f"did you mean {odradek_topic}?" in odradek.refused(
        "console-consumer", "--topic", nearly
    )


def test_a_new_topic_with_nearly_the_name_of_another_is_hinted_at(odradek: Shell) -> None:
    odradek.ok("topics", "--create", "--topic", "payments")
    done = odradek("console-producer", "--topic", "paymnts", stdin="a\n")
    assert done.returncode == 0
    assert done.stderr == (
        "hint: topic paymnts is new; did you mean payments? `odradek topics --delete --topic"
        " paymnts` takes it back\n"
    )
    assert odradek("console-producer", "--topic", "paymnts", stdin="a\n").stderr == ""


@pytest.mark.parametrize("names", [("series-1", "series-2"), ("y", "z")])
def test_a_new_topic_of_a_series_is_no_mistake(odradek: Shell, names: tuple[str, str]) -> None:
    for name in names:
        assert odradek("console-producer", "--topic", name, stdin="a\n").stderr == ""


def test_a_wrong_flag_is_one_clear_line(odradek: Shell) -> None:
    complaint = odradek.refused("topics", "--create", "--topix", "x", code=2)
    assert complaint == "odradek topics: unknown flag --topix; did you mean --topic?\n"


def test_no_broker_is_one_clear_line(odradek: Shell) -> None:
    complaint = odradek.refused("topics", "--list", "--bootstrap-server", "127.0.0.1:1")
    assert "127.0.0.1:1" in complaint
    assert "odradek up" in complaint


def test_kafkas_spelling_of_command_and_flags(odradek: Shell, odradek_topic: str) -> None:
    done = odradek("kafka-topics.sh", "--list", "--zookeeper", "localhost:2181")
    assert odradek_topic in done.stdout.splitlines()
    assert done.stderr.startswith("hint: --zookeeper is an older spelling")


class TestConsole:
    def test_lines_go_in_and_come_out(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="one\ntwo\n\nfour")
        done = odradek(
            "console-consumer", "--topic", odradek_topic, "--from-beginning", "--max-messages", "4"
        )
        assert done.stdout == "one\ntwo\n\nfour\n"
        assert done.stderr == "Processed a total of 4 messages\n"

    def test_keys_headers_and_nulls(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok(
            "console-producer", "--topic", odradek_topic, "--sync", "--compression-codec", "zstd",
            "--reader-property", "parse.key=true", "--reader-property", "key.separator=|",
            "--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL",
            stdin="a:1,b:NULL\tkey|value\nNULL\tNULL|NULL\n",
        )  # fmt: skip
        shown = odradek.ok(
            "console-consumer", "--topic", odradek_topic, "--from-beginning", "--timeout-ms", "500",
            "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
            "--formatter-property", "print.offset=true",
            "--formatter-property", "print.partition=true",
        )  # fmt: skip
        assert shown == (
            "Partition:0\tOffset:0\ta:1,b:null\tkey\tvalue\n"
            "Partition:0\tOffset:1\tNO_HEADERS\tnull\tnull\n"
        )

    def test_from_an_offset(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="0\n1\n2\n3\n")
        shown = odradek.ok(
            "console-consumer", "--topic", odradek_topic, "--partition", "0", "--offset", "2",
            "--max-messages", "1",
        )  # fmt: skip
        assert shown == "2\n"

    def test_json(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="ä\n")
        line = odradek.ok(
            "console-consumer", "--topic", odradek_topic, "--from-beginning",
            "--max-messages", "1", "--json",
        )  # fmt: skip
        record = json.loads(line)
        assert (record["topic"], record["offset"], record["value"]) == (odradek_topic, 0, "ä")

    def test_many_lines(self, odradek: Shell, odradek_topic: str) -> None:
        lines = "".join(f"{number}\n" for number in range(20_000))
        odradek.ok("console-producer", "--topic", odradek_topic, stdin=lines)
        shown = odradek.ok(
            "console-consumer", "--topic", odradek_topic, "--from-beginning",
            "--max-messages", "20000",
        )  # fmt: skip
        assert shown == lines

    def test_a_partition_that_is_not_there(self, odradek: Shell, odradek_topic: str) -> None:
        complaint = odradek.refused(
            "console-consumer", "--topic", odradek_topic, "--partition", "9"
        )
        assert "has no partition 9; it has 0 to 0" in complaint

    def test_a_record_that_is_too_large(self, odradek: Shell, odradek_topic: str) -> None:
        done = odradek("console-producer", "--topic", odradek_topic, stdin="x" * 2_000_000)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1


class TestSettings:
    def test_set_show_and_delete(self, odradek: Shell, odradek_topic: str) -> None:
        whose = ("--topic", odradek_topic)
        odradek.ok("configs", "--alter", *whose, "--add-config",
                   "retention.ms=1000,cleanup.policy=[compact,delete]")  # fmt: skip
        shown = odradek.ok("configs", "--describe", *whose).splitlines()
        assert shown[0] == f"Dynamic configs for topic {odradek_topic} are:"
        assert shown[1].startswith("  cleanup.policy=compact,delete sensitive=false synonyms={DYN")
        assert shown[2].startswith("  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_C")
        odradek.ok("configs", "--alter", *whose, "--delete-config", "retention.ms,cleanup.policy")
        assert odradek.ok("configs", "--describe", *whose).count("\n") == 1
        everything = odradek.ok("configs", "--describe", *whose, "--all")
        assert "\n  retention.ms=604800000 " in everything

    def test_a_value_that_cannot_be(self, odradek: Shell, odradek_topic: str) -> None:
        complaint = odradek.refused(
            "configs", "--alter", "--topic", odradek_topic, "--add-config", "retention.ms=soon"
        )
        assert "retention.ms" in complaint

    def test_brokers(self, odradek: Shell) -> None:
        shown = odradek.ok("configs", "--describe", "--broker", "1", "--all")
        assert shown.startswith("All configs for broker 1 are:\n")
        assert "node.id=1" in shown
        complaint = odradek.refused("configs", "--describe", "--broker", "5")
        assert "there is no broker 5; the cluster has 1" in complaint

    def test_groups(self, odradek: Shell) -> None:
        whose = ("--entity-type", "groups", "--entity-name", "billing")
        setting = "consumer.session.timeout.ms"
        odradek.ok("configs", "--alter", *whose, "--add-config", f"{setting}=50000")
        shown = odradek.ok("configs", "--describe", "--group", "billing").splitlines()
        assert shown[0] == "Dynamic configs for group billing are:"
        assert shown[1].startswith(f"  {setting}=50000 sensitive=false synonyms={{GROUP_CONFIG:")
        assert "group billing" in odradek.ok("configs", "--describe", "--entity-type", "groups")
        complaint = odradek.refused("configs", "--alter", *whose, "--add-config", f"{setting}=1")
        assert setting in complaint
        odradek.ok("configs", "--alter", *whose, "--delete-config", setting)
        assert odradek.ok("configs", "--describe", *whose).count("\n") == 1


def test_offsets_and_deleted_records(odradek: Shell, odradek_topic: str, tmp_path: Path) -> None:
    odradek.ok("console-producer", "--topic", odradek_topic, stdin="a\nb\nc\n")
    offsets = ("get-offsets", "--topic", odradek_topic)
    assert odradek.ok(*offsets) == f"{odradek_topic}:0:3\n"
    assert odradek.ok(*offsets, "--time", "-2") == f"{odradek_topic}:0:0\n"
    file = tmp_path / "offsets.json"
    wanted = {"topic": odradek_topic, "partition": 0, "offset": 2}
    file.write_text(json.dumps({"partitions": [wanted], "version": 1}))
    deleted = odradek.ok("delete-records", "--offset-json-file", str(file))
    assert f"partition: {odradek_topic}-0\tlow_watermark: 2\n" in deleted
    assert odradek.ok(*offsets, "--time", "earliest") == f"{odradek_topic}:0:2\n"
    missing = {"topic": "no-such", "partition": 0, "offset": 2}
    file.write_text(json.dumps({"partitions": [missing]}))
    assert odradek("delete-records", "--offset-json-file", str(file)).returncode == 1


def test_what_brokers_say_of_themselves(odradek: Shell, odradek_topic: str) -> None:
    (broker,) = json.loads(odradek.ok("broker-api-versions", "--json"))
    assert {"Produce", "Fetch", "ApiVersions"} <= {api["name"] for api in broker["apis"]}
    assert "Produce(0): " in odradek.ok("broker-api-versions")
    assert odradek.ok("cluster", "cluster-id").startswith("Cluster ID: ")
    assert "127.0.0.1" in odradek.ok("cluster", "list-endpoints")
    directories = odradek.ok("log-dirs", "--describe", "--topic-list", odradek_topic)
    (replica,) = json.loads(directories.splitlines()[-1])["brokers"][0]["logDirs"][0]["partitions"]
    assert replica["partition"] == f"{odradek_topic}-0"
    assert "no broker 7" in odradek("log-dirs", "--describe", "--broker-list", "7").stderr


def test_a_tool_answers_soon(odradek: Shell) -> None:
    """Seconds of processor time, because a busy machine stretches those on the wall."""
    spent_s = []
    for _ in range(3):
        with odradek.started("topics", "--list") as tool:
            assert tool.stdout is not None
            tool.stdout.read()
            _, status, usage = os.wait4(tool.pid, 0)
            tool.returncode = status
        assert status == 0
        spent_s.append(usage.ru_utime + usage.ru_stime)
    assert min(spent_s) <= 0.4


def test_partitions_that_cannot_be_added_are_not_warned_of(
    odradek: Shell, odradek_topic: str
) -> None:
    alter = ("topics", "--alter", "--topic", odradek_topic, "--partitions")
    assert "warning" not in odradek.refused(*alter, "1")
    assert odradek(*alter, "9").stderr.startswith("warning: records with a key go to other")


def test_an_offset_that_is_not_there_is_refused(odradek: Shell, odradek_topic: str) -> None:
    one = ("--topic", odradek_topic, "--partition", "0", "--offset")
    assert "-0 has no offset 7: it has none, and the next record gets 0; start at" in (
        odradek("console-consumer", *one, "7").stderr
    )
    odradek.ok("console-producer", "--topic", odradek_topic, stdin="a\nb\n")
    for offset, code in (("3", 1), ("2", 0)):
        done = odradek("console-consumer", *one, offset, "--timeout-ms", "500")
        assert done.returncode == code
        assert ("has no offset 3: it has 0 to 1, and the next record" in done.stderr) == bool(code)
    # Who says what to do then gets it.
    reset = ("--command-property", "auto.offset.reset=earliest", "--max-messages", "1")
    done = odradek("console-consumer", *one, "3", *reset)
    assert done.stdout == "a\n"
    assert "has no offset 3; reading goes on at its beginning, as auto.offset.reset=" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--list",),
        ("--remove", "--topic", "t", "--force"),
        ("--add", "--topic", "t", "--allow-principal", "User:a"),
    ],
)
def test_acls_without_an_authorizer_say_which_to_set(odradek: Shell, words: tuple[str]) -> None:
    said = odradek.refused("acls", *words)
    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in said


class TestMisspeltNames:
    """A key that does not exist is never taken silently."""

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            (("--broker", "1", "--add-config", "log.retention.mss=1"), "log.retention.ms"),
            (("--broker-defaults", "--add-config", "log.retention.mss=1"), "log.retention.ms"),
            (("--group", "g", "--add-config", "consumer.sesion.timeout.ms=50000"),
             "consumer.session.timeout.ms"),
            (("--broker", "1", "--delete-config", "log.retention.mss"), "log.retention.ms"),
            (("--broker-defaults", "--delete-config", "log.retention.mss"), "log.retention.ms"),
            (("--group", "g", "--delete-config", "consumer.sesion.timeout.ms"),
             "consumer.session.timeout.ms"),
        ],
    )  # fmt: skip
    def test_of_settings(self, odradek: Shell, words: tuple[str, ...], meant: str) -> None:
        assert f"did you mean {meant}?" in odradek.refused("configs", "--alter", *words)

    def test_of_a_topic_setting(self, odradek: Shell, odradek_topic: str) -> None:
        flags = ("--topic", odradek_topic, "--add-config", "retention.mss=1")
        assert "did you mean retention.ms?" in odradek.refused("configs", "--alter", *flags)
        flags = ("--topic", odradek_topic, "--delete-config", "retention.mss")
        assert "did you mean retention.ms?" in odradek.refused("configs", "--alter", *flags)

    def test_nothing_is_deleted_in_silence(self, odradek: Shell, odradek_topic: str) -> None:
        alter = ("configs", "--alter", "--topic", odradek_topic)
        assert "topics have no setting colour, so there is nothing to delete" in odradek.refused(
            *alter, "--delete-config", "colour"
        )
        done = odradek(*alter, "--delete-config", "retention.ms")
        assert done.returncode == 0
        said = f"hint: retention.ms was not set for topic {odradek_topic}; its value stays 6048"
        assert done.stderr.startswith(said)
        odradek.ok(*alter, "--add-config", "retention.ms=1")
        assert odradek(*alter, "--delete-config", "retention.ms").stderr == ""

    def test_of_a_reader(self, odradek: Shell, odradek_topic: str) -> None:
        flags = ("--topic", odradek_topic, "--reader-property", "prase.key=true")
        said = odradek.refused("console-producer", *flags, code=2, stdin="a\n")
        assert "no reader property prase.key; did you mean parse.key?" in said

    def test_of_a_formatter(self, odradek: Shell, odradek_topic: str) -> None:
        flags = ("--topic", odradek_topic, "--formatter-property", "print.keys=true")
        said = odradek.refused("console-consumer", *flags, code=2)
        assert "did you mean print.key?" in said


def test_who_deletes_a_missing_topic_is_not_told_to_create_it(odradek: Shell) -> None:
    line = odradek.refused("topics", "--delete", "--topic", "zzz")
    assert "--create" not in line
    assert "odradek topics --list" in line


def test_a_line_without_a_separator_is_the_only_complaint(
    odradek: Shell, odradek_topic: str
) -> None:
    flags = ("--topic", odradek_topic, "--reader-property", "parse.key=true")
    lines = "no separator\n" * 100_000
    said = odradek.refused("console-producer", *flags, stdin=lines)
    assert "without the key.separator, which is a tab" in said
    said = odradek.refused("console-producer", *flags, stdin="ada\t1\nada\t2\nbea:3\n")
    assert "line 3 is 'bea:3'" in said
    assert "; 2 lines before it were sent" in said


def test_free_space_of_directories_is_shown(odradek: Shell) -> None:
    shown = json.loads(odradek.ok("log-dirs", "--describe", "--json"))
    directory = shown["brokers"][0]["logDirs"][0]
    assert directory["usableBytes"] <= directory["totalBytes"]


class TestNextSteps:
    """Brokers refuse, and the tool says what to type instead."""

    def test_of_a_new_topic(self, odradek: Shell) -> None:
        create = ("topics", "--create", "--topic")
        said = odradek.refused(*create, "my topic")
        assert said.endswith("; for instance my-topic\n")
        assert "one by one" in odradek.refused(*create, "t1,t2")
        said = odradek.refused(*create, "r3", "--replication-factor", "3")
        assert "; give --replication-factor 1 or less; `odradek local grow` makes three" in said
        said = odradek.refused(*create, "q2", "--replica-assignment", "5")
        assert "There is no broker 5; the cluster has" in said
        said = odradek.refused(*create, "c", "--config", "retention.ms=1d")
        assert said.endswith("; it counts milliseconds: retention.ms=86400000\n")

    def test_of_a_topic_that_is_there(self, odradek: Shell, odradek_topic: str) -> None:
        said = odradek.refused("topics", "--alter", "--topic", odradek_topic, "--partitions", "1")
        assert "partitions are never removed, so give a greater number" in said
        alter = ("configs", "--alter", "--topic", odradek_topic, "--add-config")
        said = odradek.refused(*alter, "segment.bytes=1MiB")
        assert said.endswith("; it counts bytes: segment.bytes=1048576\n")

    def test_settings_may_be_given_one_by_one(self, odradek: Shell, odradek_topic: str) -> None:
        alter = ("configs", "--alter", "--topic", odradek_topic)
        odradek.ok(*alter, "--add-config", "retention.ms=1", "--add-config", "retention.bytes=5")
        shown = odradek.ok("configs", "--describe", "--topic", odradek_topic)
        assert "retention.ms=1 " in shown
        assert "retention.bytes=5 " in shown


class TestWhatATopicFlagSelects:
    def test_the_name_of_a_topic_selects_that_one(self, odradek: Shell) -> None:
        for name in ("exact.v1", "exact-v1"):
            odradek.ok("topics", "--create", "--topic", name)
        delete = ("topics", "--delete", "--topic")
        said = odradek.refused(*delete, "exact*")
        assert "which is a regular expression; did you mean 'exact.*'?" in said
        assert odradek.ok(*delete, "exact.v1") == "Deleted topic exact.v1.\n"
        assert odradek.ok(*delete, "exact.*") == "Deleted topic exact-v1.\n"

    def test_a_pattern_deletes_no_internal_topic(self, odradek: Shell, odradek_topic: str) -> None:
        reset = ("consumer-groups", "--reset-offsets", "--group", "any", "--topic", odradek_topic)
        odradek.ok(*reset, "--to-earliest", "--execute")
        deleted = odradek("topics", "--delete", "--topic", f"__.*|{odradek_topic}")
        assert deleted.returncode == 0
        assert deleted.stdout == f"Deleted topic {odradek_topic}.\n"
        assert "internal topics are left out: __consumer_offsets" in deleted.stderr
