"""Tools that run for a while: they measure, go on until they are stopped, and say what they did."""

import json
import signal

import pytest

from odradek.testing import Cluster
from tests.scenarios.test_cli import Shell


@pytest.fixture(scope="module")
def odradek(odradek_cluster: Cluster) -> Shell:
    return Shell(odradek_cluster.bootstrap)


class TestMeasuring:
    @pytest.mark.parametrize("engine", ["odradek", "librdkafka"])
    def test_load_in_both_directions(self, odradek: Shell, odradek_topic: str, engine: str) -> None:
        sent = odradek(
            "producer-perf-test", "--topic", odradek_topic, "--num-records", "5000",
            "--record-size", "100", "--throughput", "-1", "--engine", engine, "--json",
            "--command-property", "acks=1", "linger.ms=1",
        )  # fmt: skip
        assert sent.stderr == f"client: {engine}\n"
        report = json.loads(sent.stdout)
        assert (report["records"], report["failed"]) == (5000, 0)
        read = odradek(
            "consumer-perf-test", "--topic", odradek_topic, "--messages", "5000",
            "--engine", engine, "--hide-header",
        )  # fmt: skip
        assert read.stdout.split(", ")[4] == "5000"

    @pytest.mark.parametrize("engine", ["odradek", "librdkafka"])
    def test_no_topic_to_read(self, odradek: Shell, engine: str) -> None:
        done = odradek("consumer-perf-test", "--topic", "no-such", "--num-records", "1",
                       "--engine", engine)  # fmt: skip
        assert done.returncode == 1
        assert "topic 'no-such' does not exist" in done.stderr

    def test_latency(self, odradek: Shell) -> None:
        shown = odradek.ok(
            "e2e-latency", "--topic", "latency", "--num-records", "20", "--producer-acks", "1",
            "--record-size", "10", "--num-headers", "1", "--record-header-key-size", "2",
        )  # fmt: skip
        assert "Avg latency: " in shown
        assert "Percentiles: 50th = " in shown

    def test_verifiable(self, odradek: Shell, odradek_topic: str) -> None:
        sent = odradek.ok(
            "verifiable-producer", "--topic", odradek_topic, "--max-messages", "3",
            "--repeating-keys", "2", "--value-prefix", "7", "--acks", "1",
        )  # fmt: skip
        events = [json.loads(line) for line in sent.splitlines()]
        names = [event["name"] for event in events]
        assert names == [
            "startup_complete", *["producer_send_success"] * 3, "shutdown_complete", "tool_data",
        ]  # fmt: skip
        assert [event["value"] for event in events[1:4]] == ["7.0", "7.1", "7.2"]
        assert (events[-1]["sent"], events[-1]["acked"]) == (3, 3)
        read = odradek.ok("verifiable-consumer", "--topic", odradek_topic, "--max-messages", "3")
        consumed = [json.loads(line) for line in read.splitlines()]
        summed = [e["count"] for e in consumed if e["name"] == "records_consumed"]
        assert sum(summed) == 3
        assert consumed[-1]["name"] == "shutdown_complete"

    def test_a_verifiable_consumer_in_a_group(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="one\ntwo\n")
        group = ("--topic", odradek_topic, "--group-id", f"verifiable-{odradek_topic}")
        read = odradek.ok("verifiable-consumer", *group, "--max-messages", "1")
        events = [json.loads(line) for line in read.splitlines()]
        assert [event["name"] for event in events][:4] == [
            "startup_complete", "partitions_assigned", "records_consumed", "offsets_committed",
        ]  # fmt: skip
        assert events[3]["success"] is True
        assert events[3]["offsets"][0]["offset"] == 1
        # The group goes on where it stopped.
        read = odradek.ok("verifiable-consumer", *group, "--max-messages", "1", "--verbose")
        events = [json.loads(line) for line in read.splitlines()]
        assert [event["value"] for event in events if event["name"] == "record_data"] == ["two"]

    def test_flags_of_groups_need_a_group(self, odradek: Shell, odradek_topic: str) -> None:
        flags = ("--topic", odradek_topic, "--session-timeout", "10000")
        said = odradek.refused("verifiable-consumer", *flags, code=2)
        assert "--session-timeout goes with --group-id ID" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_consumer_that_is_interrupted_says_what_it_did(
    odradek: Shell, odradek_topic: str, number: signal.Signals
) -> None:
    odradek.ok("console-producer", "--topic", odradek_topic, stdin="one\n")
    with odradek.started("console-consumer", "--topic", odradek_topic, "--from-beginning") as tool:
        assert tool.stdout is not None
        assert tool.stdout.readline() == "one\n"
        tool.send_signal(number)
        rest, said = tool.communicate(timeout=30)
    assert (rest, said) == ("", "Processed a total of 1 messages\n")
    assert tool.returncode == 128 + number


def test_a_verifiable_producer_that_is_stopped_counts_everything(
    odradek: Shell, odradek_topic: str
) -> None:
    with odradek.started(
        "verifiable-producer", "--topic", odradek_topic, "--throughput", "200"
    ) as tool:
        assert tool.stdout is not None
        assert tool.stderr is not None
        lines = [tool.stdout.readline() for _ in range(2)]
        tool.send_signal(signal.SIGTERM)
        # Not communicate: it would miss what the reader of lines has taken already.
        lines += tool.stdout.readlines()
        complaints = tool.stderr.read()
        tool.wait(30)
    assert complaints == ""
    events = [json.loads(line) for line in lines]
    acknowledged = sum(event["name"] == "producer_send_success" for event in events)
    assert events[-1]["acked"] == acknowledged
    shown = odradek.ok("get-offsets", "--topic", odradek_topic)
    assert shown == f"{odradek_topic}:0:{acknowledged}\n"


def test_an_interrupted_producer_leaves_quietly(odradek: Shell, odradek_topic: str) -> None:
    with odradek.started("console-producer", "--topic", odradek_topic) as tool:
        assert tool.stdin is not None
        tool.stdin.write("sent\n")
        tool.stdin.flush()
        read = odradek.ok("console-consumer", "--topic", odradek_topic, "--from-beginning",
                          "--max-messages", "1")  # fmt: skip
        assert read == "sent\n"
        tool.send_signal(signal.SIGINT)
        # Not communicate: it closes the standard input, and its end is an orderly end.
        assert tool.wait(30) == 130
        assert tool.stderr is not None
        assert tool.stderr.read() == ""


class TestSilence:
    """A console consumer begins at the end unless it is told otherwise, and says so."""

    def test_without_a_group(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="a\nb\n")
        read = odradek("console-consumer", "--topic", odradek_topic, "--timeout-ms", "200")
        assert read.stderr == (
            f"hint: no new records; {odradek_topic} has 2 older records: --from-beginning shows"
            " them\nProcessed a total of 0 messages\n"
        )

    def test_in_a_group(self, odradek: Shell, odradek_topic: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="a\n")
        words = ("console-consumer", "--topic", odradek_topic, "--group", f"g-{odradek_topic}")
        with odradek.started(*words) as reading:
            assert reading.stderr is not None
            said = reading.stderr.readline()
        assert f"no new records for group g-{odradek_topic}; " in said
        assert said.endswith("--to-earliest --execute\n")

    def test_who_waits_on_an_empty_topic_is_told(self, odradek: Shell, odradek_topic: str) -> None:
        words = ("console-consumer", "--topic", odradek_topic, "--from-beginning")
        with odradek.started(*words) as reading:
            assert reading.stderr is not None
            said = reading.stderr.readline()
        assert said == (
            f"hint: {odradek_topic} has no records yet; waiting for the first (Ctrl-C ends it)\n"
        )

    def test_an_empty_topic_has_nothing_to_say(self, odradek: Shell, odradek_topic: str) -> None:
        read = odradek("console-consumer", "--topic", odradek_topic, "--timeout-ms", "200")
        assert read.stderr == "Processed a total of 0 messages\n"


class TestInterruptedWithoutABroker:
    """Ctrl-C ends a tool soon, also if the broker that it would tell has died."""

    def test_a_producer_says_what_was_not_sent(self) -> None:
        with Cluster() as cluster:
            shell = Shell(cluster.bootstrap)
            cluster.create_topic("t")
            with shell.started("console-producer", "--topic", "t", "--sync") as sending:
                assert sending.stdin is not None
                sending.stdin.write("one\n")
                sending.stdin.flush()
                shell.ok("console-consumer", "--topic", "t", "--from-beginning",
                         "--max-messages", "1")  # fmt: skip
                cluster.stop()
                sending.stdin.write("two\n")
                sending.stdin.flush()
                assert sending.stderr is not None
                assert "cannot connect" in sending.stderr.readline()
                sending.send_signal(signal.SIGINT)
                _, said = sending.communicate(timeout=20)
        assert sending.returncode == 130
        assert "odradek console-producer: 1 line was not sent" in said

    def test_a_consumer_says_that_offsets_may_not_be_committed(self) -> None:
        with Cluster() as cluster:
            shell = Shell(cluster.bootstrap)
            shell.ok("console-producer", "--topic", "t", stdin="one\n")
            words = ("console-consumer", "--topic", "t", "--group", "g", "--from-beginning")
            with shell.started(*words) as reading:
                assert reading.stdout is not None
                assert reading.stdout.readline() == "one\n"
                cluster.stop()
                reading.send_signal(signal.SIGINT)
                _, said = reading.communicate(timeout=20)
        assert reading.returncode == 130
        assert "offsets may not be committed" in said


def test_a_misspelt_setting_of_librdkafka_is_answered(odradek: Shell, odradek_topic: str) -> None:
    done = odradek(
        "producer-perf-test", "--topic", odradek_topic, "--num-records", "1", "--record-size", "1",
        "--throughput", "-1", "--engine", "librdkafka", "--producer-props", "ack=1",
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no client setting ack; did you mean acks?" in done.stderr
