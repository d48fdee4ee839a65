"""An error that a program does not look at is said, and a misspelt group too."""

import gc
import logging

import pytest

from odradek.client import sync
from odradek.client.admin.admin import Admin
from odradek.client.admin.results import Results
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.types import TopicPartition
from odradek.testing import Cluster
from tests.unit.client.group_cluster import BOOTSTRAP, GroupCluster, on_groups

T0 = TopicPartition("t", 0)


def failed() -> Results[str, KafkaError | None]:
    wrong = error_for(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")
    other = error_for(ErrorCode.INVALID_PARTITIONS, "too few")
    return Results("create_topics()", {"a": wrong, "b": other, "c": None})


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records]


def test_each_error_that_nobody_looked_at_is_said(caplog: pytest.LogCaptureFixture) -> None:
    failed()
    first, second = said(caplog)
    assert first.startswith("create_topics() failed for a: TOPIC_ALREADY_EXISTS: it is there; nob")
    assert "write .raise_for_errors() after the call, or look at answers['a']" in first
    assert second.startswith("create_topics() failed for b: INVALID_PARTITIONS: too few")


def test_names_alone_are_not_a_look(caplog: pytest.LogCaptureFixture) -> None:
    answers = failed()
    assert list(answers) == ["a", "b", "c"]
    assert "a" in answers
    assert len(answers) == 3
    assert answers["a"] is not None
    del answers
    (only,) = said(caplog)
    assert "failed for b" in only


@pytest.mark.parametrize(
    "look",
    [
        lambda answers: list(answers.values()),
        lambda answers: list(answers.items()),
        lambda answers: [answers.get(name) for name in answers],
        lambda answers: [answers.pop(name) for name in list(answers)],
        dict,
        lambda answers: {**answers},
        repr,
        lambda answers: answers == {},
    ],
)
def test_every_other_way_is_one(look: object, caplog: pytest.LogCaptureFixture) -> None:
    assert callable(look)
    look(failed())
    assert said(caplog) == []


def test_errors_can_be_raised(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KafkaError, match="it is there") as raised:
        failed().raise_for_errors()
    assert raised.value.__notes__ == [
        "create_topics() failed for a",
        "create_topics() failed for b too: INVALID_PARTITIONS: too few",
    ]
    done = Results("create_topics()", {"c": None})
    assert done.raise_for_errors() is done
    not_needed = {T0: error_for(ErrorCode.ELECTION_NOT_NEEDED)}
    Results("elect_leaders()", not_needed).raise_for_errors()
    assert said(caplog) == []


@on_groups()
async def test_calls_return_such_results(cluster: GroupCluster) -> None:
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        (await admin.create_topics(["t"])).raise_for_errors()
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            (await admin.create_topics(["t", "u"])).raise_for_errors()
        for answers in (
            await admin.delete_topics(["nowhere"]),
            await admin.describe_topics(["nowhere"]),
            await admin.create_partitions({"nowhere": 2}),
            await admin.delete_records({TopicPartition("nowhere", 0): 1}),
            await admin.list_offsets({TopicPartition("nowhere", 0): -1}),
            await admin.delete_groups(["nowhere"]),
            await admin.describe_groups(["nowhere"]),
            await admin.describe_transactions(["nowhere"]),
        ):
            with pytest.raises(KafkaError):
                answers.raise_for_errors()


def test_a_program_without_asyncio_is_told_too(
    odradek_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.Admin(bootstrap_servers=odradek_cluster.bootstrap) as admin:
        admin.delete_topics(["nowhere"])
    assert [line for line in said(caplog) if "delete_topics() failed for nowhere: UNKNOWN" in line]


@on_groups()
async def test_a_group_that_is_made_by_its_offsets_is_said(cluster: GroupCluster) -> None:
    logged: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    heard = Heard()
    logging.getLogger("odradek.client").addHandler(heard)
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        await admin.create_topic("t")
        (await admin.alter_group_offsets("billing", {T0: 0}, may_create=True)).raise_for_errors()
        (await admin.alter_group_offsets("billing", {T0: 0})).raise_for_errors()
        assert logged == []
        with pytest.raises(KafkaError, match="no group 'biling'; did you mean billing") as raised:
            await admin.alter_group_offsets("biling", {T0: 0}, may_create=False)
        assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await admin.alter_group_offsets("biling", {T0: 0}) == {T0: True}
    logging.getLogger("odradek.client").removeHandler(heard)
    (line,) = logged
    assert line.startswith(
        "alter_group_offsets(): there is no group 'biling'; did you mean billing?; it is made now."
        " Write may_create=True if it is a new group, delete_groups(['biling'])"
    )
