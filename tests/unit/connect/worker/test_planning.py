"""The leader's plans: tasks of an old plan are fenced before those of a new one start."""

import asyncio
import pickle
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar, cast

import pytest

from odradek.client import Producer
from odradek.client.admin.admin import Admin
from odradek.client.errors import ProducerFenced
from odradek.config.secrets import DeclaredProviders
from odradek.connect import plugins
from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.engine import TaskId, TaskSpec
from odradek.connect.engine.plan_check import PlannedAnew
from odradek.connect.plugins import Plugin
from odradek.connect.settings import PluginSettings
from odradek.connect.worker.config_state import ConfigState, connector_record, task_records
from odradek.connect.worker.config_store import ConfigStore, MemoryConfigs, TopicConfigs
from odradek.connect.worker.fencing import Fencing
from odradek.connect.worker.plan_check import plan_check_of
from odradek.connect.worker.planning import Planner
from odradek.connect.worker.secrets import Secrets
from odradek.connect.worker.status_state import State
from odradek.testing import Cluster

PATIENCE_S = 60.0


class ManySource(SourceConnector):
    """Makes as many tasks as it may."""

    settings_class: ClassVar = PluginSettings

    def __init__(self, settings: PluginSettings) -> None: ...

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        return [{**properties, "part": f"{number} of {max_tasks}"} for number in range(max_tasks)]

    def task(self) -> SourceTask:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _many_source() -> Iterator[None]:
    plugin = Plugin("ManySource", __name__, "ManySource")
    tables = [cast("dict[str, Plugin]", one) for one in (plugins.SOURCES, plugins.CONNECTORS)]
    for table in tables:
        table["ManySource"] = plugin
    yield
    for table in tables:
        del table["ManySource"]


def properties(most: int) -> dict[str, str]:
    return {"name": "many", "connector.class": "ManySource", "tasks.max": str(most)}


class Bench:
    """A leader that has nothing but its plans."""

    def __init__(self, cluster: Cluster, store: ConfigStore) -> None:
        self.clients = {"bootstrap.servers": cluster.bootstrap}
        self.group = f"workers-{uuid.uuid4().hex[:6]}"
        self.store = store
        fencing = Fencing(ConnectorClients(self.clients), self.group)
        secrets = Secrets(DeclaredProviders({}, lambda path: "", {}))
        self.planner = Planner(store, secrets, self._report, fencing)
        self.failures: list[str | None] = []
        store.on_change = lambda request: self.planner.look()

    def _report(self, name: str, state: State, trace: str | None) -> None:
        if state is State.FAILED:
            self.failures.append(trace)

    async def plan(self, most: int) -> None:
        """Gives the connector other properties, and waits until its tasks may start."""
        state = self.store.state
        await self.store.write([connector_record("many", properties(most))])
        async with asyncio.timeout(PATIENCE_S):
            while "many" in state.unfenced or len(state.tasks.get("many", ())) != most:  # noqa: ASYNC110 - what the state has come to
                await asyncio.sleep(0.005)
        assert not self.failures

    @asynccontextmanager
    async def task(self, number: int) -> AsyncIterator[Producer]:
        """A task as it stands still: with a transaction that it has not committed yet."""
        options = {**self.clients, "transactional.id": f"{self.group}-many-{number}"}
        async with Producer(options) as producer:
            await producer.init_transactions()
            yield producer


async def test_all_tasks_of_the_former_plan_are_fenced(odradek_cluster: Cluster) -> None:
    bench = Bench(odradek_cluster, MemoryConfigs())
    bench.planner.lead()
    await bench.plan(3)
    async with bench.task(0) as first, bench.task(2) as last:
        await bench.plan(1)
        for task in (first, last):
            with pytest.raises(ProducerFenced):
                async with task.transaction():
                    await task.send(f"{bench.group}-topic", b"twice")
    assert bench.store.state.fenced_counts == {"many": 1}
    await bench.planner.retire()


@pytest.mark.parametrize(("lane", "tasks"), [("shared", 3), ("own", 1)])
async def test_a_sink_has_as_many_tasks_as_it_may(
    odradek_cluster: Cluster, lane: str, tasks: int
) -> None:
    """In a lane of its own one query reads all partitions, and `tasks.max` at once write."""
    bench = Bench(odradek_cluster, MemoryConfigs())
    bench.planner.lead()
    sink = {
        "name": "sink", "connector.class": "FileStreamSink", "topics": "t", "file": "f",
        "tasks.max": "3", "odradek.lane": lane,
    }  # fmt: skip
    await bench.store.write([connector_record("sink", sink)])
    async with asyncio.timeout(PATIENCE_S):
        while len(bench.store.state.tasks.get("sink", ())) != tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await bench.planner.retire()


async def test_a_connector_that_was_made_again_fences_the_tasks_of_the_one_before(
    odradek_cluster: Cluster,
) -> None:
    store = MemoryConfigs()
    bench = Bench(odradek_cluster, store)
    store.state.apply(b"tasks-fencing-many", b'{"task-count":2}')
    bench.planner.lead()
    async with bench.task(1) as former:
        await bench.plan(1)
        with pytest.raises(ProducerFenced):
            async with former.transaction():
                await former.send(f"{bench.group}-topic", b"twice")
    await bench.planner.retire()


def test_tasks_may_start_when_the_record_behind_their_plan_says_so() -> None:
    state = ConfigState()
    for record in (connector_record("many", properties(1)), *task_records("many", [{}])):
        state.apply(*record.encoded())
    assert state.unfenced == {"many"}
    state.apply(b"tasks-fencing-many", b'{"task-count":1}')
    assert not state.unfenced
    assert state.fenced_counts == {"many": 1}
    state.apply(b"connector-many", None)
    assert state.fenced_counts == {"many": 1}


@asynccontextmanager
async def topic_of_configs(cluster: Cluster) -> AsyncIterator[TopicConfigs]:
    name = f"configs-{uuid.uuid4().hex[:6]}"
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topic(name, 1, 1, {"cleanup.policy": "compact"})
    store = TopicConfigs({"bootstrap.servers": cluster.bootstrap}, name, name)
    reading = asyncio.create_task(store.topic.run())
    try:
        await store.load()
        await store.begin()
        yield store
    finally:
        await store.end()
        reading.cancel()
        await asyncio.wait({reading})


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_task_of_a_former_plan_is_refused(
    odradek_cluster: Cluster, elsewhere: bool
) -> None:
    """It is what a task asks after it has fenced its own id, here or in a process of its own."""
    clients = {"bootstrap.servers": odradek_cluster.bootstrap}
    async with topic_of_configs(odradek_cluster) as store:
        check = plan_check_of(store, clients)
        if elsewhere:
            check = pickle.loads(pickle.dumps(check))
        reading = asyncio.create_task(check.run()) if elsewhere else None
        plan = [{"part": "a"}, {"part": "b"}]
        await store.write([connector_record("many", properties(2)), *task_records("many", plan)])
        tasks = [
            TaskSpec(TaskId("many", number), {"secret": "x"}, planned)
            for number, planned in enumerate(plan)
        ]
        for task in tasks:
            await check.check(task)
        await store.write(task_records("many", [{"part": "a and b"}]))
        for task in tasks:
            with pytest.raises(PlannedAnew, match="the tasks of connector many were planned again"):
                await check.check(task)
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
