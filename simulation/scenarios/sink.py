"""A streaming query that writes into a topic with the exactly-once sink, while drivers and tasks
die.

A driver plans micro-batches, writes each into its checkpoint before it runs and after it was
written, and gives its rows to tasks. Tasks die at every step and are tried again; some resume when
their successors have finished. Drivers die and replay the last batch. An old copy of the checkpoint
is restored: then the sink must refuse, and the newest copy is restored. A driver that replays a
batch may split it into another number of tasks: the sink may refuse, and the old number is used
until the batch is done. In the end every row that the checkpoint calls written is in the topic
once.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Final

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark.exactly_once import Outcome
from odradek.spark.markers import ReplayDiffers, TaskWrite, WriteRefused
from odradek.spark.replays import CommitFailed, TaskReport
from odradek.world import World
from simulation.blocking_programs import BlockingProgram
from simulation.checkers import Violation
from simulation.simulated_cluster import Brokers
from simulation.sink_steps import Step
from simulation.spark_sink import SinkOptions, attempt, commit, sink_in_simulation
from simulation.transaction_workload import read_all
from simulation.verdicts import NeverHappened, require_no_violations
from simulation.walk import Walk
from simulation.workload import Options
from simulation.world import Simulation

TOPIC: Final = "written"
_QUERY: Final = "query"
_MAX_ATTEMPTS: Final = 30
_THEMES: Final = (
    ("rows", "batch", "restore"),
    ("rows", "batch", "driver-dies", "task-dies"),
    ("rows", "batch", "task-sleeps", "broker"),
    ("rows", "batch", "driver-dies", "driver-dies-midway", "resplit"),
)


@dataclass(slots=True)
class Checkpoint:
    """The ends of the batches that were planned, and how many of them were written."""

    ends: list[int] = field(default_factory=list)
    written: int = 0

    def copy(self) -> "Checkpoint":
        return Checkpoint(list(self.ends), self.written)

    @property
    def end(self) -> int:
        return self.ends[self.written - 1] if self.written else 0


class SinkWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("sink")
        self._simulation = simulation
        self._brokers = Brokers(simulation, random.choice((1, 1, 2)), _properties(random))
        self._tasks = random.randint(1, 3)
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.randint(1, 2))]
        self._options = SinkOptions(self._brokers.bootstrap, TOPIC)
        self._rows = 0
        self._checkpoint = Checkpoint()
        self._backups: list[Checkpoint] = []
        self._runs = 1
        self._attempts = 0
        self._refused = 0
        self._is_old = False
        self._tasks_before = self._tasks
        self._dies_at: list[Step | None] = []
        self._sleeps = 0
        self._programs: list[BlockingProgram[Outcome]] = []
        self._commits: list[BlockingProgram[None]] = []
        self._walk = Walk(
            simulation,
            {
                "rows": self._more_rows,
                "batch": self._run_batch,
                "task-dies": self._task_dies,
                "task-sleeps": self._task_sleeps,
                "driver-dies": self._driver_dies,
                "driver-dies-midway": self._driver_dies_midway,
                "resplit": self._resplit,
                "restore": self._restore,
                "broker": self._broker_suffers,
            },
            {"rows": 2.0, "batch": 3.0},
            ("rows", "batch"),
            _THEMES,
        )

    # Steps

    async def _more_rows(self) -> None:
        self._rows += self._random.randint(1, 6)

    async def _task_dies(self) -> None:
        """One of the next attempts does, at some step."""
        self._dies_at.append(self._random.choice(list(Step)))

    async def _task_sleeps(self) -> None:
        self._sleeps += 1

    async def _driver_dies(self) -> None:
        """In the middle of the next batch, or after it: the next driver replays it."""
        self._backup()
        if self._plan() and self._random.random() < 0.7:
            await self._write_batch()
        self._runs += 1

    async def _driver_dies_midway(self) -> None:
        """When some tasks of the next batch are done and others have not begun."""
        self._backup()
        if self._plan() and self._tasks > 1:
            await self._write_batch(max_tasks=self._random.randint(1, self._tasks - 1))
        self._runs += 1

    async def _resplit(self) -> None:
        """The query is stopped and started again with another number of tasks."""
        if self._tasks_before == self._tasks:
            self._tasks = self._random.randint(1, 4)
            self._runs += 1

    async def _restore(self) -> None:
        """An old copy of the checkpoint is put back, and the query goes on with it."""
        self._backup()
        self._checkpoint = self._random.choice(self._backups).copy()
        self._is_old = self._checkpoint != self._newest()
        self._runs += 1

    def _newest(self) -> Checkpoint:
        """Of copies that came equally far, the last: an older one may have planned other rows for a
        batch that nobody wrote then."""
        return max(reversed(self._backups), key=lambda one: (one.written, len(one.ends)))

    async def _broker_suffers(self) -> None:
        broker = self._random.choice(self._brokers.all)
        broker.kill()
        self._simulation.loop.call_later(
            self._random.choice((0.0, 1.0)), broker.start, context=self._simulation.no_process
        )

    # The driver

    def _backup(self) -> None:
        self._backups.append(self._checkpoint.copy())

    def _plan(self) -> bool:
        """Notes the next batch, unless one is planned already, or there is nothing to write."""
        checkpoint = self._checkpoint
        if len(checkpoint.ends) == checkpoint.written:
            if checkpoint.end >= self._rows:
                return False
            checkpoint.ends.append(self._rows)
        return True

    async def _run_batch(self) -> None:
        if not self._plan():
            return
        if await self._write_batch():
            self._checkpoint.written += 1
            self._backup()

    async def _write_batch(self, max_tasks: int | None = None) -> bool:
        """Returns whether all tasks have succeeded. If the sink refuses, the query ends, and the
        newest copy of the checkpoint and the first number of tasks are restored."""
        checkpoint = self._checkpoint
        batch = checkpoint.written
        rows = range(checkpoint.end, checkpoint.ends[batch])
        reports = []
        try:
            for task in self._random.sample(range(self._tasks), self._tasks)[:max_tasks]:
                values = [b"%d" % row for row in rows if row % self._tasks == task]
                reports.append(await self._write_task(task, batch, values))
            if max_tasks is not None:
                if any(report.rows and report.pending is None for report in reports):
                    self._tasks_before = self._tasks
                return False
            await self._commit(reports)
        except (WriteRefused, ReplayDiffers) as error:
            self._simulation.trace.add("-", f"refused: {str(error)[:80]}")
            self._refused += 1
            if not self._is_old and self._tasks == self._tasks_before:
                detail = f"batch {batch}, though nothing was changed: {error}"
                require_no_violations([Violation("refused", TOPIC, detail[:200])])
            if self._is_old:
                self._checkpoint = self._newest().copy()
            self._tasks = self._tasks_before
            self._is_old = False
            self._runs += 1
            return False
        except (CommitFailed, ClientError, KafkaError) as error:
            self._simulation.trace.add("-", f"the driver failed: {str(error)[:80]}")
            self._tasks_before = self._tasks
            self._runs += 1
            return False
        self._tasks_before = self._tasks
        return True

    async def _commit(self, reports: list[TaskReport]) -> None:
        """The driver's part; if the brokers fail, the driver is started again."""
        host = self._simulation.host(f"driver-{len(self._commits)}")

        async def work(world: World) -> None:
            await commit(world, self._options, reports, self._commits)

        await host.start(work, "driver")

    async def _write_task(self, task: int, batch: int, values: list[bytes]) -> TaskReport:
        """Spark tries again until an attempt succeeds."""
        write = TaskWrite(
            f"{self._options.id_prefix}{_QUERY}-{TOPIC}-{task}", batch, run=f"run-{self._runs}"
        )
        for _ in range(_MAX_ATTEMPTS):
            outcome = await self._try(write, values)
            if outcome is not None:
                return TaskReport(write, outcome.rows, outcome.was_done_before, outcome.pending)
            await asyncio.sleep(0.2)
        raise NeverHappened(f"unseen: {write} in {_MAX_ATTEMPTS} attempts")

    async def _try(self, write: TaskWrite, values: list[bytes]) -> Outcome | None:
        self._attempts += 1
        name = f"worker-{self._attempts}"
        host = self._simulation.host(name)
        dies_at = self._dies_at.pop() if self._dies_at else None

        async def work(world: World) -> Outcome:
            return await attempt(
                world,
                host,
                write,
                self._options,
                values,
                partitions=len(self._partitions),
                dies_at=dies_at,
                programs=self._programs,
            )

        running = host.start(work, name)
        if self._sleeps:
            # It sleeps in the middle, is given up, and goes on when others have taken its place.
            self._sleeps -= 1
            await asyncio.sleep(self._random.choice((0.005, 0.02, 0.1)))
            host.stop()
            after_s = self._random.choice((0.5, 3.0))
            loop, no_process = self._simulation.loop, self._simulation.no_process
            loop.call_later(after_s, host.resume, context=no_process)
            running.add_done_callback(_look_away)
            return None
        while host.processes and not running.done():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.02)
        if not running.done():
            return None  # It was killed.
        try:
            return running.result()
        except (ClientError, KafkaError):
            return None

    # The run

    async def run(self) -> str:
        brokers = self._brokers
        brokers.start()
        try:
            await brokers.create_topic(TOPIC, len(self._partitions), len(brokers.all))
            await self._walk.take(self._random.randint(6, 22))
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            await self._run_batch()
            await asyncio.sleep(15)  # What a zombie left open ends by itself.
            await self._judge()
        finally:
            for program in self._programs:
                program.abandon()
            for committing in self._commits:
                committing.abandon()
            brokers.end()
        return self._summary()

    async def _judge(self) -> None:
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "request_timeout_ms": 5000,
        }
        found = await self._brokers.ask(lambda world: read_all(world, self._partitions, options))
        counts: dict[int, int] = {}
        for records in found.values():
            for _, value in records:
                counts[int(value)] = counts.get(int(value), 0) + 1
        wrong = [
            Violation("row lost", TOPIC, f"{row}, which the checkpoint calls written")
            for row in range(self._checkpoint.end)
            if row not in counts
        ]
        wrong += [
            Violation("row doubled", TOPIC, f"{row} is there {count} times")
            for row, count in sorted(counts.items())
            if count > 1
        ]
        require_no_violations(wrong)

    def _summary(self) -> str:
        return (
            f"{self._tasks} tasks, {self._checkpoint.written} batches of {self._rows} rows,"
            f" {self._attempts} attempts, {self._refused} refused; {self._walk.summary()}"
        )


def _look_away(task: "asyncio.Task[Outcome]") -> None:
    """Whatever a zombie ends with, nobody asks any more."""
    if not task.cancelled():
        task.exception()


def _properties(random: Random) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "replica.lag.time.max.ms": "1000",
    }


async def sink(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    with sink_in_simulation():
        return await SinkWalk(simulation).run()
