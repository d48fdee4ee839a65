"""Transactions, against a real broker in the simulation, in both versions of the protocol."""

import asyncio
from typing import Any

import pytest

from odradek.client import Admin
from odradek.client.api_versions import ApiVersions
from odradek.client.connection import Connection
from odradek.client.errors import (
    MustAbort,
    ProducerFenced,
    SettingsError,
    TransactionAborted,
    TransactionError,
)
from odradek.client.producer import transaction_requests, transactions
from odradek.client.producer.producer import Producer
from odradek.client.settings import ProducerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.unit.client.group_cluster import GroupCluster, on_groups, with_groups

PARTITION = TopicPartition("t", 0)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A cluster that has not finalised transaction.version=2 speaks version 1."""
    if request.param == 1:
        negotiate = Connection._negotiate

        async def without_features(self: Connection, timeout_ms: int | None) -> ApiVersions:
            found = await negotiate(self, timeout_ms)
            self.features = {}
            return found

        monkeypatch.setattr(Connection, "_negotiate", without_features)
    chosen: int = request.param
    return chosen


async def visible(cluster: GroupCluster, topic: str = "t", partitions: int = 1) -> list[bytes]:
    """All that a reader of committed records sees."""
    reader = cluster.consumer(group=None, isolation_level="read_committed")
    everything = [TopicPartition(topic, index) for index in range(partitions)]
    reader.assign(everything)
    ends = await reader.end_offsets(everything)
    found: list[bytes] = []
    while any([await reader.position(one) < ends[one] for one in everything]):
        for records in (await reader.poll(100)).values():
            found += [record.value for record in records]
    await reader.close()
    return found


async def ready(cluster: GroupCluster, name: str = "tx", partitions: int = 1) -> Producer:
    await cluster.client.create_topic("t", partitions)
    producer = cluster.producer(transactional_id=name)
    await producer.init_transactions()
    return producer


@on_groups()
async def test_committed_records_are_seen_and_aborted_ones_are_not(cluster: GroupCluster) -> None:
    producer = await ready(cluster, partitions=2)
    for number in range(6):
        await producer.begin_transaction()
        for index in range(2):
            await producer.send("t", b"%d" % number, partition=index)
        if number % 3 == 2:
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
    assert sorted(await visible(cluster, partitions=2)) == sorted([b"0", b"1", b"3", b"4"] * 2)


@on_groups()
async def test_the_context_manager_commits_or_aborts(cluster: GroupCluster) -> None:
    producer = await ready(cluster)
    async with producer.transaction():
        await producer.send("t", b"kept")
    deliveries = []

    async def fails() -> None:
        async with producer.transaction():
            deliveries.append(await producer.send("t", b"dropped"))
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await fails()
    with pytest.raises(TransactionAborted):
        await deliveries[0]
    async with producer.transaction():
        pass
    async with producer.transaction():
        await producer.send("t", b"kept too")
    assert await visible(cluster) == [b"kept", b"kept too"]


@on_groups()
async def test_calls_in_the_wrong_order_say_what_comes_first(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    producer = cluster.producer(transactional_id="tx")
    with pytest.raises(TransactionError, match=r"init_transactions\(\) comes first"):
        await producer.begin_transaction()
    await producer.init_transactions()
    with pytest.raises(TransactionError, match=r"begin_transaction\(\) comes first"):
        await producer.send("t", b"v")
    with pytest.raises(TransactionError, match="no transaction is open"):
        await producer.commit_transaction()
    await producer.begin_transaction()
    with pytest.raises(TransactionError, match="a transaction is open"):
        await producer.begin_transaction()
    plain = cluster.producer()
    with pytest.raises(TransactionError, match=r"set transactional\.id"):
        await plain.begin_transaction()


@on_groups()
async def test_a_newer_producer_fences_the_older_for_good(cluster: GroupCluster) -> None:
    old = await ready(cluster)
    await old.begin_transaction()
    await (await old.send("t", b"old"))
    new = cluster.producer(transactional_id="tx")
    await new.init_transactions()
    async with new.transaction():
        await new.send("t", b"new")
    with pytest.raises(ProducerFenced, match=r"transactional\.id=tx"):
        await old.commit_transaction()
    for call in (old.abort_transaction, old.begin_transaction):
        with pytest.raises(ProducerFenced):
            await call()
    assert await visible(cluster) == [b"new"]


@on_groups()
async def test_a_record_that_is_refused_means_abort_and_after_that_all_is_well(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("small", 1, max_message_bytes="200")
    producer = await ready(cluster)

    async def too_large() -> None:
        async with producer.transaction():
            await producer.send("t", b"with it")
            await producer.send("small", b"x" * 1000)

    with pytest.raises(MustAbort, match="MESSAGE_TOO_LARGE"):
        await too_large()
    async with producer.transaction():
        await producer.send("t", b"after")
        await producer.send("small", b"x")
    assert await visible(cluster) == [b"after"]
    assert await visible(cluster, "small") == [b"x"]


@on_groups()
async def test_offsets_go_with_the_transaction(cluster: GroupCluster) -> None:
    producer = await ready(cluster)
    consumer = cluster.consumer("g", enable_auto_commit=False)
    consumer.subscribe(["t"])
    async with asyncio.timeout(10):
        while not consumer.assignment():
            await consumer.poll(100)
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({PARTITION: 7}, consumer.group_metadata())
    await producer.abort_transaction()
    assert await consumer.committed([PARTITION]) == {PARTITION: None}
    async with producer.transaction():
        await producer.send("t", b"out")
        await producer.send_offsets_to_transaction({PARTITION: 9}, consumer.group_metadata())
    found = (await consumer.committed([PARTITION]))[PARTITION]
    assert found is not None
    assert found.offset == 9
    stranger = consumer.group_metadata()._replace(member_id="somebody else")
    with pytest.raises(MustAbort, match="UNKNOWN_MEMBER_ID"):
        async with producer.transaction():
            await producer.send_offsets_to_transaction({PARTITION: 1}, stranger)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@on_groups()
async def test_whoever_was_dropped_from_its_group_commits_no_offsets(
    cluster: GroupCluster, protocol: str
) -> None:
    producer = await ready(cluster)
    consumer, successor = (
        cluster.consumer(
            "g",
            group_protocol=protocol,
            enable_auto_commit=False,
            max_poll_interval_ms=10_000,
        )
        for _ in range(2)
    )
    consumer.subscribe(["t"])
    async with asyncio.timeout(30):
        while not consumer.assignment():
            await consumer.poll(100)
        # It thinks for too long about what it has in hand, and another one goes on.
        successor.subscribe(["t"])
        while not successor.assignment():
            await successor.poll(100)
    await producer.begin_transaction()
    with pytest.raises(MustAbort):
        await producer.send_offsets_to_transaction({PARTITION: 7}, consumer.group_metadata())
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send_offsets_to_transaction({PARTITION: 9}, successor.group_metadata())


def test_closing_aborts_what_is_open_and_says_so(said: list[str]) -> None:
    @on_groups()
    async def test(cluster: GroupCluster) -> None:
        producer = await ready(cluster)
        await producer.begin_transaction()
        await (await producer.send("t", b"open"))
        await producer.close()
        # A reader of committed records does not wait for a transaction that nobody ends.
        assert await visible(cluster) == []

    test()
    (warning,) = said
    assert "the producer was closed before commit_transaction(), so the transaction is" in warning


async def ended(
    cluster: GroupCluster, who: transaction_requests.Identity, *, is_commit: bool
) -> dict[str, bool | KafkaError]:
    async with Admin(bootstrap_servers="broker:9092", world=cluster.world()) as admin:
        return await admin.end_transactions([who], is_commit=is_commit)


@pytest.mark.parametrize("is_commit", [True, False])
@on_groups()
async def test_a_transaction_that_was_handed_over_is_ended_by_somebody_else(
    cluster: GroupCluster, is_commit: bool
) -> None:
    producer = await ready(cluster)
    await producer.begin_transaction()
    await producer.send("t", b"a")
    who = await producer.hand_over_transaction()
    with pytest.raises(TransactionError, match="handed over"):
        await producer.send("t", b"b")
    await producer.close()
    assert await visible(cluster) == []
    for _ in range(2):
        # Who asks again, because the answer was lost, is told the same.
        answers = await ended(cluster, who, is_commit=is_commit)
        assert answers == {"tx": True}
    assert await visible(cluster) == ([b"a"] if is_commit else [])


@on_groups()
async def test_a_transaction_that_was_handed_over_is_fenced_by_the_next_producer(
    cluster: GroupCluster,
) -> None:
    producer = await ready(cluster)
    await producer.begin_transaction()
    await producer.send("t", b"a")
    who = await producer.hand_over_transaction()
    await producer.close()
    await cluster.producer(transactional_id="tx").init_transactions()
    answers = await ended(cluster, who, is_commit=True)
    assert isinstance(answers["tx"], KafkaError)
    assert await visible(cluster) == []


def test_closing_lets_a_commit_end_whose_caller_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = transaction_requests.end

    async def end_late(*arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(5)
        return await end(*arguments, **options)

    monkeypatch.setattr(transactions, "end", end_late)

    async def test(cluster: GroupCluster) -> None:
        producer = await ready(cluster)
        await producer.begin_transaction()
        await producer.send("t", b"kept")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait([committing])
        assert committing.cancelled()
        await producer.close()
        assert await visible(cluster) == [b"kept"]

    with_groups(test)


async def _commit_that_fails_after_its_caller_was_interrupted(producer: Producer) -> None:
    """The batch for the topic `small` is refused while nobody waits for the commit any more."""
    await producer.begin_transaction()
    await producer.send("t", b"with it")
    await producer.send("small", b"x" * 1000)
    committing = asyncio.ensure_future(producer.commit_transaction())
    await asyncio.sleep(0)
    committing.cancel()
    await asyncio.wait([committing])
    assert committing.cancelled()


@pytest.mark.parametrize("pause_s", [0, 5])
@on_groups()
async def test_a_commit_that_failed_after_its_caller_was_interrupted_can_be_aborted(
    cluster: GroupCluster, pause_s: int
) -> None:
    await cluster.client.create_topic("small", 1, max_message_bytes="200")
    producer = await ready(cluster)
    await _commit_that_fails_after_its_caller_was_interrupted(producer)
    await asyncio.sleep(pause_s)
    if not pause_s:
        with pytest.raises(MustAbort, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send("t", b"after")
    assert await visible(cluster) == [b"after"]


@on_groups()
async def test_closing_aborts_a_commit_that_failed_after_its_caller_was_interrupted(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("small", 1, max_message_bytes="200")
    producer = await ready(cluster)
    await _commit_that_fails_after_its_caller_was_interrupted(producer)
    await asyncio.sleep(5)
    await producer.close()
    # The transaction does not wait for its time-out: readers of committed records get past it.
    ends = []
    for isolation_level in ("read_committed", "read_uncommitted"):
        reader = cluster.consumer(group=None, isolation_level=isolation_level)
        ends.append(await reader.end_offsets([PARTITION]))
        await reader.close()
    assert ends[0] == ends[1] == {PARTITION: 2}


def test_transactions_need_idempotence() -> None:
    with pytest.raises(SettingsError, match=r"enable\.idempotence=true"):
        ProducerSettings(transactional_id="tx", enable_idempotence=False)
