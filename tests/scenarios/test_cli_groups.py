"""Groups and transactions as a user looks at them and changes them: real tools, real clients."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
import pytest

from odradek.testing import Cluster
from tests.scenarios.hanging_transaction import PRODUCER_ID, leave_hanging
from tests.scenarios.test_cli import Shell

RESET = ("consumer-groups", "--reset-offsets")
FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def odradek(odradek_cluster: Cluster) -> Shell:
    return Shell(odradek_cluster.bootstrap)


@pytest.fixture
def topic(odradek_cluster: Cluster) -> str:
    """Two partitions with ten records each, a second apart. Their timestamps are years old, so
    retention would delete them when it first runs, half a minute after the broker's start."""
    name = odradek_cluster.create_topic(partitions=2, config={"retention.ms": "-1"})
    producer = confluent_kafka.Producer({"bootstrap.servers": odradek_cluster.bootstrap})
    for number in range(20):
        producer.produce(
            name, b"%d" % number, partition=number % 2,
            timestamp=FIRST_MS + number // 2 * 1000,
        )  # fmt: skip
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def idle_group(odradek_cluster: Cluster, topic: str, group: str) -> str:
    """It has stopped at offset 4 of partition 0 and knows nothing of partition 1."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": odradek_cluster.bootstrap, "group.id": group}
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    return group


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[confluent_kafka.Consumer]:
    """A consumer that has read everything, committed it, and stays."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        read = 0
        while read < 20:
            read += len(consumer.consume(20, 1))
        consumer.commit(asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def offsets(odradek: Shell, group: str) -> dict[int, int]:
    told = odradek.ok("consumer-groups", "--describe", "--group", group, "--json")
    (description,) = json.loads(told)
    return {one["partition"]: one["offset"] for one in description["offsets"]}


def test_what_a_group_is(odradek: Shell, odradek_cluster: Cluster, topic: str, group: str) -> None:
    with member(odradek_cluster.bootstrap, group, topic):
        assert group in odradek.ok("consumer-groups", "--list").splitlines()
        listed = odradek.ok("consumer-groups", "--list", "--state", "stable", "--type")
        assert [line.split() for line in listed.splitlines() if group in line] == [
            [group, "Classic", "Stable"]
        ]
        assert group not in odradek.ok("consumer-groups", "--list", "--state", "Empty")
        described = odradek.ok("consumer-groups", "--describe", "--group", group).splitlines()
        assert described[1].split()[:6] == [
            "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
        ]  # fmt: skip
        rows = [line.split() for line in described[2:]]
        assert [row[1:6] for row in rows] == [
            [topic, "0", "10", "10", "0"],
            [topic, "1", "10", "10", "0"],
        ]
        assert rows[0][6].startswith("reader-")
        assert rows[0][7:] == ["/127.0.0.1", "reader"]
        members = odradek.ok("consumer-groups", "--describe", "--group", group, "--members",
                             "--verbose").splitlines()  # fmt: skip
        assert f"{topic}:0,1" in members[2]
        state = odradek.ok("consumer-groups", "--describe", "--group", group, "--state")
        assert state.splitlines()[2].split()[3:] == ["range", "Stable", "1"]
        assert group in odradek.ok("groups", "--list", "--consumer")
        assert group not in odradek.ok("groups", "--list", "--share")
    done = odradek("consumer-groups", "--describe", "--group", group)
    assert done.stderr == f"\nConsumer group '{group}' has no active members.\n"


def test_an_active_group_is_not_reset(
    odradek: Shell, odradek_cluster: Cluster, topic: str, group: str
) -> None:
    with member(odradek_cluster.bootstrap, group, topic):
        complaint = odradek.refused(
            *RESET, "--group", group, "--topic", topic, "--to-earliest", "--execute"
        )
        assert f"group '{group}' is active (Stable): reader at 127.0.0.1 (2 part" in complaint
        assert "stop these consumers" in complaint
        complaint = odradek.refused("consumer-groups", "--delete", "--group", group)
        assert "still has members" in complaint
        done = odradek("consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
        assert done.returncode == 1
        assert "were not deleted" in done.stderr
    assert offsets(odradek, group) == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 10, 1: 10}),
        (("--to-offset", "7"), {0: 7, 1: 7}),
        (("--to-offset", "99"), {0: 10, 1: 10}),
        (("--to-current",), {0: 4, 1: 10}),
        (("--by-duration", "PT0S"), {0: 10, 1: 10}),
        (("--by-duration", "P36500D"), {0: 0, 1: 0}),
        (("--to-datetime", datetime.fromtimestamp(FIRST_MS / 1000 + 3, UTC).isoformat()),
         {0: 3, 1: 3}),
        (("--to-datetime", "2500-01-01T00:00:00.000"), {0: 10, 1: 10}),
    ],
)  # fmt: skip
def test_each_way_to_move(
    odradek: Shell, topic: str, idle_group: str, flags: tuple[str, ...], expected: dict[int, int]
) -> None:
    command = (*RESET, "--group", idle_group, "--topic", topic, *flags, "--json")
    planned = json.loads(odradek.ok(*command, "--dry-run"))
    assert {one["partition"]: one["newOffset"] for one in planned} == expected
    assert offsets(odradek, idle_group) == {0: 4}
    odradek.ok(*command, "--execute")
    assert offsets(odradek, idle_group) == expected


def test_moving_by_some_and_only_some(odradek: Shell, topic: str, idle_group: str) -> None:
    command = (*RESET, "--group", idle_group)
    shown = odradek.ok(*command, "--all-topics", "--shift-by", "-3", "--execute").splitlines()
    assert shown[1].split() == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert [line.split() for line in shown[2:]] == [[idle_group, topic, "0", "1"]]
    done = odradek(*command, "--topic", f"{topic}:0", "--shift-by", "-100", "--execute")
    assert f"-99 is before the first record of {topic}-0; 0 is taken" in done.stderr
    odradek.ok(*command, "--topic", f"{topic}:1", "--to-offset", "5", "--execute")
    assert offsets(odradek, idle_group) == {0: 0, 1: 5}


def test_without_execute_nothing_moves_and_that_is_said(
    odradek: Shell, topic: str, idle_group: str
) -> None:
    done = odradek(*RESET, "--group", idle_group, "--topic", topic, "--to-earliest")
    assert done.returncode == 0
    assert done.stderr == (
        "hint: nothing was changed; add --execute to move the group, or --dry-run to only look\n"
    )
    assert offsets(odradek, idle_group) == {0: 4}


def test_positions_are_saved_and_brought_back(
    odradek: Shell, topic: str, idle_group: str, tmp_path: Path
) -> None:
    saved = odradek.ok(
        *RESET, "--group", idle_group, "--all-topics", "--to-current", "--dry-run", "--export"
    )
    assert saved == f"{topic},0,4\n"
    file = tmp_path / "positions.csv"
    file.write_text(saved + f"{topic},1,6\n")
    odradek.ok(*RESET, "--group", idle_group, "--topic", topic, "--to-latest", "--execute")
    odradek.ok(*RESET, "--group", idle_group, "--from-file", str(file), "--execute")
    assert offsets(odradek, idle_group) == {0: 4, 1: 6}

    file.write_text(f"{idle_group},{topic},0,2\nnew-{idle_group},{topic},1,3\n")
    odradek.ok(*RESET, "--group", idle_group, "--group", f"new-{idle_group}",
               "--from-file", str(file), "--execute")  # fmt: skip
    assert offsets(odradek, f"new-{idle_group}") == {1: 3}
    file.write_text(f"{topic},7,0\n")
    complaint = odradek.refused(*RESET, "--group", idle_group, "--from-file", str(file))
    assert f"topic '{topic}' has no partition 7; it has 0 to 1" in complaint


def test_what_cannot_be_reset(odradek: Shell, topic: str, idle_group: str) -> None:
    command = (*RESET, "--group", idle_group)
    complaint = odradek.refused(*command, "--topic", "nothing", "--to-earliest")
    assert "topic 'nothing' does not exist" in complaint
    complaint = odradek.refused(*command, "--topic", topic, "--shift-by", "1")
    assert f"has no position in {topic}-1 to shift" in complaint
    complaint = odradek.refused(*command, "--topic", topic, "--to-datetime", "soon", code=2)
    assert "'soon' is not like" in complaint
    complaint = odradek.refused(*command, "--from-file", "/no/such/file")
    assert "/no/such/file" in complaint


def test_forgetting(odradek: Shell, topic: str, idle_group: str) -> None:
    shown = odradek.ok(
        "consumer-groups", "--delete-offsets", "--group", idle_group, "--topic", topic
    )
    assert shown.startswith(f"Request succeeded for deleting offsets from group {idle_group}.\n")
    assert [line.split()[2] for line in shown.splitlines()[3:]] == ["Successful"] * 2
    odradek.ok(*RESET, "--group", idle_group, "--topic", topic, "--to-latest", "--execute")
    shown = odradek.ok("consumer-groups", "--delete", "--group", idle_group)
    assert shown == f"Deletion of requested consumer groups ('{idle_group}') was successful.\n"
    for action in ("--describe", "--delete"):
        complaint = odradek.refused("consumer-groups", action, "--group", idle_group)
        assert f"group '{idle_group}' does not exist" in complaint


def test_forgetting_what_was_never_there(odradek: Shell, topic: str, idle_group: str) -> None:
    forget = ("consumer-groups", "--delete-offsets", "--group")
    complaint = odradek.refused(*forget, idle_group, "--topic", "nope")
    assert (
        f"group '{idle_group}' has no offsets in topic 'nope'; it has some in {topic}" in complaint
    )
    complaint = odradek.refused(*forget, f"{idle_group}x", "--topic", topic)
    assert f"does not exist; did you mean {idle_group}?" in complaint


def test_only_one_topic_of_a_group_is_described(
    odradek: Shell, topic: str, idle_group: str
) -> None:
    describe = ("consumer-groups", "--describe", "--json")
    (shown,) = json.loads(odradek.ok(*describe, "--group", idle_group, "--topic", topic))
    assert [row["partition"] for row in shown["offsets"]] == [0]
    groups = json.loads(odradek.ok(*describe, "--all-groups", "--topic", f"{topic}:0,1"))
    assert [group["group"] for group in groups] == [idle_group]
    complaint = odradek.refused(*describe, "--group", idle_group, "--topic", f"{topic}x")
    assert f"has no offsets in topic '{topic}x'; did you mean {topic}?" in complaint
    complaint = odradek.refused(*describe, "--all-groups", "--topic", "nope")
    assert "no group has offsets in topic 'nope'" in complaint


def test_a_misspelt_group_is_said_to_be_new(odradek: Shell, topic: str, idle_group: str) -> None:
    reset = (*RESET, "--group", f"{idle_group}x", "--topic", topic, "--to-earliest")
    looked = odradek(*reset, "--dry-run")
    meant = f"did you mean {idle_group}?\n"
    assert looked.stderr == (
        f"hint: group {idle_group}x does not exist; --execute makes it; {meant}"
    )
    done = odradek(*reset, "--execute")
    assert done.stderr.startswith(f"hint: group {idle_group}x did not exist and is new (odradek")
    assert done.stderr.endswith(meant)
    assert odradek(*reset, "--execute").stderr == "", "now it exists"


class TestConsoleConsumer:
    def test_a_group_goes_on_where_it_stopped(
        self, odradek: Shell, odradek_topic: str, group: str
    ) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="a\nb\nc\n")
        command = ("console-consumer", "--topic", odradek_topic, "--group", group)
        read = odradek.ok(*command, "--from-beginning", "--max-messages", "2")
        assert read == "a\nb\n"
        assert offsets(odradek, group) == {0: 2}
        assert odradek.ok(*command, "--max-messages", "1") == "c\n"
        assert offsets(odradek, group) == {0: 3}

    def test_one_of_several_topics(self, odradek: Shell, odradek_topic: str, group: str) -> None:
        odradek.ok("console-producer", "--topic", odradek_topic, stdin="x\n")
        read = odradek.ok("console-consumer", "--include", f"{odradek_topic[:-1]}.*", "--group",
                          group, "--from-beginning", "--max-messages", "1")  # fmt: skip
        assert read == "x\n"


# Transactions


@pytest.fixture
def transactional_id() -> str:
    return f"transaction-{uuid.uuid4().hex[:12]}"


def open_transaction(bootstrap: str, topic: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"pending")
    assert producer.flush(30) == 0
    return producer


def test_an_open_transaction_is_seen_and_ended(
    odradek: Shell, odradek_cluster: Cluster, odradek_topic: str, transactional_id: str
) -> None:
    producer = open_transaction(odradek_cluster.bootstrap, odradek_topic, transactional_id)
    listed = odradek.ok("transactions", "list", "--transactional-id-pattern", transactional_id)
    header, line = listed.splitlines()
    assert header.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert line.split()[0::3] == [transactional_id, "Ongoing"]
    assert odradek.ok("transactions", "list", "--duration-filter", "3600000", "--json") == "[]\n"
    described = json.loads(
        odradek.ok("transactions", "describe", "--transactional-id", transactional_id, "--json")
    )
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": odradek_topic, "partition": 0}]
    shown = odradek.ok("transactions", "describe-producers", "--topic", odradek_topic,
                       "--partition", "0").splitlines()  # fmt: skip
    assert shown[1].split()[0] == str(described["producerId"])
    assert shown[1].split()[-1] == "0"

    odradek.ok("transactions", "forceTerminateTransaction", "--transactionalId", transactional_id)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(30)
    described = json.loads(
        odradek.ok("transactions", "describe", "--transactional-id", transactional_id, "--json")
    )
    assert (described["partitions"], described["startTimeMs"]) == ([], None)
    complaint = odradek.refused("transactions", "describe", "--transactional-id", "nobody's")
    assert 'there is no transactional id "nobody\'s"' in complaint


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    with Cluster(settings={"transaction.partition.verification.enable": "false"}) as cluster:
        odradek = Shell(cluster.bootstrap)
        topic = cluster.create_topic()
        asyncio.run(leave_hanging(cluster.bootstrap, topic, FIRST_MS))
        place = ("--topic", topic, "--partition", "0")
        committed = ("console-consumer", *place, "--offset", "earliest", "--timeout-ms", "500",
                     "--isolation-level", "read_committed", "--json")  # fmt: skip
        odradek.ok("console-producer", "--topic", topic, stdin="behind it\n")
        assert odradek.ok(*committed) == ""
        header, line = odradek.ok("transactions", "find-hanging", "--topic", topic).splitlines()
        assert header.split()[5] == "StartOffset"
        assert line.split()[:3] == [topic, "0", str(PRODUCER_ID)]
        assert odradek.ok("transactions", "find-hanging", "--broker-id", "1").count("\n") == 2
        complaint = odradek.refused("transactions", "abort", *place, "--start-offset", "1")
        assert f"no open transaction begins at offset 1 of {topic}-0" in complaint
        odradek.ok("transactions", "abort", *place, "--start-offset", line.split()[5])
        assert odradek.ok("transactions", "find-hanging", "--topic", topic).count("\n") == 1
        (record,) = odradek.ok(*committed).splitlines()
        assert json.loads(record)["value"] == "behind it"
