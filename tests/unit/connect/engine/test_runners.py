"""Source and sink tasks on a real broker: exactly once into the topic, at least once out of it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.client.errors import ProducerFenced
from odradek.connect.connector_settings import SinkSettings, SourceSettings
from odradek.connect.connectors.connector import FailedRecord, PartitionName, SinkTask
from odradek.connect.connectors.file_sink import FileSinkTask
from odradek.connect.connectors.file_source import FileSourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.engine.dead_letters import DeadLetters
from odradek.connect.engine.offset_store import OffsetStore, offset_key, offset_value
from odradek.connect.engine.record_path import FailedRecords, path_of
from odradek.connect.engine.sink_runner import SinkRunner
from odradek.connect.engine.source_runner import SourceRunner
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord
from odradek.protocol.errors import KafkaError
from odradek.testing import Cluster

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
PATIENCE_S = 60.0


class Bench:
    """A worker in small: the store of offsets, and tasks that run beside it."""

    def __init__(self, bootstrap: str, store: OffsetStore) -> None:
        self.clients = {"bootstrap.servers": bootstrap}
        self.store = store

    def source(self, name: str, path: Path, topic: str, **properties: str) -> SourceRunner:
        given = {"name": name, "connector.class": "x", **STRINGS, **properties}
        settings = SourceSettings.read(given)
        return SourceRunner(
            name, 0, FileSourceTask(str(path), topic, 100),
            path=path_of(given, {}),
            failed=FailedRecords(settings, name),
            offsets=self.store,
            producer_properties=self.clients,
            group_id="workers",
            wrote_to=lambda _: None,
        )  # fmt: skip

    def sink(
        self,
        name: str,
        task: SinkTask,
        properties: Mapping[str, str],
        letters: Producer | None = None,
    ) -> SinkRunner:
        given = {"name": name, "connector.class": "x", **STRINGS, **properties}
        settings = SinkSettings.read(given)
        divert = None
        if letters is not None:
            divert = DeadLetters(
                letters, f"{name}-letters", connector=name, task=0, has_context=True
            ).write
        return SinkRunner(
            name, 0, task,
            settings=settings,
            path=path_of(given, {}),
            failed=FailedRecords(settings, name, divert),
            consumer_properties=self.clients,
            read_from=lambda _: None,
        )  # fmt: skip

    async def values(self, topic: str, count: int) -> list[str]:
        """Reads so many committed records."""
        found: list[str] = []
        options = {
            **self.clients,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        async with asyncio.timeout(PATIENCE_S), Consumer(options) as consumer:
            consumer.assign([(topic, 0)])
            while len(found) < count:
                for records in (await consumer.poll(timeout_ms=1000)).values():
                    found += [(record.value or b"").decode() for record in records]
        return found

    async def committed(self, group_id: str, topic: str, offset: int) -> None:
        """Waits until the group has committed the offset."""
        async with asyncio.timeout(PATIENCE_S), Admin(self.clients) as admin:
            found: object = None
            while found != offset:
                offsets = await admin.list_group_offsets(group_id)
                found = next(
                    (
                        at.offset
                        for tp, at in offsets.items()
                        if tp.topic == topic and not isinstance(at, KafkaError)
                    ),
                    None,
                )
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(runner: SourceRunner | SinkRunner) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(runner.run(lambda: None))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, DataError, ProducerFenced):
            await task


@asynccontextmanager
async def bench(cluster: Cluster, *topics: str) -> AsyncIterator[Bench]:
    store = OffsetStore({"bootstrap.servers": cluster.bootstrap}, f"offsets-{uuid.uuid4().hex}")
    await store.prepare(5, 3)
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for topic in topics:
            await admin.create_topic(topic, 1, 1)
    reading = asyncio.create_task(store.run())
    try:
        yield Bench(cluster.bootstrap, store)
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


def name() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition, which is asked again and again."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what it asks for tells nobody
            await asyncio.sleep(0.01)


async def test_a_source_goes_on_where_it_was_and_doubles_nothing(
    odradek_cluster: Cluster, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    connector, topic = name(), name()
    lines.write_text("".join(f"{number}\n" for number in range(250)))
    async with bench(odradek_cluster, topic) as worker:
        async with running(worker.source(connector, lines, topic)):
            assert len(await worker.values(topic, 250)) == 250
        with lines.open("a") as file:
            file.write("250\n")
        async with running(worker.source(connector, lines, topic)):
            assert await worker.values(topic, 251) == [str(number) for number in range(251)]
            partition, offset = {"filename": str(lines)}, {"position": lines.stat().st_size}
            await until(lambda: worker.store.of(connector, partition) == offset)
            assert worker.store.all_of(connector) == Positions([(partition, offset)])


async def test_the_open_transaction_of_another_connector_hides_no_offset(
    odradek_cluster: Cluster,
) -> None:
    """A worker that was killed leaves transactions open. What others have committed behind them in
    the topic of offsets must be found all the same, or it would be written twice."""
    async with bench(odradek_cluster) as worker:
        other = {**worker.clients, "transactional.id": name()}
        own = {**worker.clients, "transactional.id": name()}
        async with Producer(other) as killed, Producer(own) as producer:
            await killed.init_transactions()
            await killed.begin_transaction()
            for partition in range(5):
                await killed.send_and_wait(worker.store.topic, b"{}", b"k", partition=partition)
            await producer.init_transactions()
            async with producer.transaction():
                key = offset_key("mine", {"filename": "f"})
                await producer.send(worker.store.topic, offset_value({"position": 5}), key)
            found = asyncio.create_task(worker.store.read_to_end())
            await asyncio.wait([found], timeout=0.5)
            await killed.abort_transaction()
            await found
            assert worker.store.of("mine", {"filename": "f"}) == {"position": 5}


async def test_a_second_task_of_the_same_name_fences_the_first(
    odradek_cluster: Cluster, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    connector, topic = name(), name()
    lines.write_text("one\n")
    async with (
        bench(odradek_cluster, topic) as worker,
        running(worker.source(connector, lines, topic)) as first,
    ):
        await worker.values(topic, 1)
        second_reads = asyncio.Event()
        second = worker.source(connector, lines, topic)
        other = asyncio.create_task(second.run(second_reads.set))
        await second_reads.wait()
        with lines.open("a") as file:
            file.write("two\n")
        assert await worker.values(topic, 2) == ["one", "two"]
        # The first one tries to write the line too, and is refused.
        with pytest.raises(ProducerFenced):
            await asyncio.wait_for(first, PATIENCE_S)
        assert not other.done()
        other.cancel()
        await asyncio.wait([other])


def test_offsets_keep_the_form_of_their_partition() -> None:
    """Fields of a partition may come in any order from users. Two keys for one partition would be
    read in any order after a restart, and the older offset could win."""
    given, own = {"table": "t", "protocol": "1"}, {"protocol": "1", "table": "t"}
    start = Positions([(given, {"incrementing": 5})])
    end = start.with_offset(own, {"incrementing": 6})
    assert end.of(given) == end.of(own) == {"incrementing": 6}
    ((partition, _),) = end.since(start)
    assert offset_key("c", partition) == offset_key("c", given)


async def test_transforms_work_between_the_task_and_the_topic(
    odradek_cluster: Cluster, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    connector, topic = name(), name()
    lines.write_text("a\nb\n")
    transforms = {
        "transforms": "wrap,text",
        "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "line",
        "transforms.text.type": "InsertField$Value",
        "transforms.text.static.field": "from",
        "transforms.text.static.value": "file",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    async with (
        bench(odradek_cluster, topic) as worker,
        running(worker.source(connector, lines, topic, **transforms)),
    ):
        assert await worker.values(topic, 2) == [
            '{"line":"a","from":"file"}',
            '{"line":"b","from":"file"}',
        ]


async def test_a_sink_writes_what_comes_and_commits_behind_it(
    odradek_cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    connector, topic = name(), name()
    async with bench(odradek_cluster, topic) as worker:
        async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
            for number in range(10):
                await producer.send(topic, str(number).encode())
        for _ in range(2):  # The second one begins behind the first.
            async with running(worker.sink(connector, FileSinkTask(str(out)), {"topics": topic})):
                await until(lambda: out.exists() and out.read_text().count("\n") >= 10)
                await worker.committed(f"connect-{connector}", topic, 10)
        assert out.read_text().split() == [str(number) for number in range(10)]


class Keeper(SinkTask):
    """Keeps records until it has three of a partition."""

    def __init__(self) -> None:
        self.kept: dict[int, list[SinkRecord]] = {}
        self.written: list[object] = []
        self.calls = 0

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        self.calls += 1
        for record in records:
            self.kept.setdefault(record.original_partition, []).append(record)
        for partition, found in list(self.kept.items()):
            if len(found) >= 3:
                self.written += [record.value for record in found]
                del self.kept[partition]
        return ()

    def unsafe(self) -> dict[PartitionName, int]:
        return {
            (found[0].original_topic, partition): found[0].offset
            for partition, found in self.kept.items()
        }

    def lost(self, partitions: Iterable[PartitionName]) -> None:
        for _, partition in partitions:
            self.kept.pop(partition, None)


async def test_what_a_sink_keeps_is_not_committed_and_comes_again(
    odradek_cluster: Cluster,
) -> None:
    connector, topic = name(), name()
    async with (
        bench(odradek_cluster, topic) as worker,
        Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer,
    ):
        await producer.send(topic, b"0")
        await producer.send(topic, b"1")
        first = Keeper()
        async with running(worker.sink(connector, first, {"topics": topic})):
            await until(lambda: len(first.kept.get(0, ())) == 2)
            await worker.committed(f"connect-{connector}", topic, 0)
            calls = first.calls
            await until(lambda: first.calls > calls)  # It may write by the clock.
        second = Keeper()
        async with running(worker.sink(connector, second, {"topics": topic})):
            await until(lambda: len(second.kept.get(0, ())) == 2)
            await producer.send(topic, b"2")
            await worker.committed(f"connect-{connector}", topic, 3)
            await producer.send(topic, b"3")
            await until(lambda: second.unsafe() == {(topic, 0): 3})
            # Another member joins, and the group gives it all partitions or none.
            third = Keeper()
            async with running(worker.sink(connector, third, {"topics": topic})):
                await producer.send(topic, b"4")
                await producer.send(topic, b"5")
                await worker.committed(f"connect-{connector}", topic, 6)
        # Records may come to both, if the first one was not in time with its commit.
        assert {*second.written, *third.written} == {str(number) for number in range(6)}


class Picky(SinkTask):
    def __init__(self) -> None:
        self.written: list[object] = []

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        failed = []
        for record in records:
            if record.value == "poison":
                failed.append(FailedRecord(record, DataError("it is poison")))
            else:
                self.written.append(record.value)
        return failed


async def test_a_bad_record_goes_to_the_dead_letters_or_ends_the_task(
    odradek_cluster: Cluster,
) -> None:
    connector, topic = name(), name()
    letters = f"{connector}-letters"
    json = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    async with (
        bench(odradek_cluster, topic, letters) as worker,
        Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer,
    ):
        for value in (b"1", b"{bad", b'"poison"', b"2"):
            await producer.send(topic, value)
        await producer.flush()
        task = Picky()
        tolerant = worker.sink(
            connector, task, {"topics": topic, "errors.tolerance": "all", **json}, producer
        )
        async with running(tolerant):
            assert sorted(await worker.values(letters, 2)) == ['"poison"', "{bad"]
            await until(lambda: task.written == [1, 2])
        strict = worker.sink(name(), Picky(), {"topics": topic, **json})
        with pytest.raises(DataError, match="this is not JSON"):
            async with asyncio.timeout(PATIENCE_S):
                await strict.run(lambda: None)
