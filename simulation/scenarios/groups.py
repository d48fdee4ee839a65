"""A group of consumers on a bad day: members join, leave, die, freeze and dream.

They share a topic by the classic protocol (eager or cooperative) or by the new one, and commit
what they have read. When the day is over the group must have been given every record, nobody may
have owned what another one did, and its position may never have gone back.
"""

from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, violations
from simulation.crew import Crew
from simulation.group_checkers import GroupHistory, group_violations
from simulation.group_workload import GroupMember, Habits, Observer
from simulation.scenarios.bad_day import GROUP, BadDay, judge
from simulation.transaction_workload import read_all
from simulation.workload import Options, ProducingClient
from simulation.world import Simulation

TOPIC = "orders"


class Feeder(ProducingClient):
    """Has its say to the end: nobody asks it to leave."""

    is_leaving = False


class GroupDay:
    def __init__(self, simulation: Simulation) -> None:
        self.day = day = BadDay(simulation)
        random = day.random
        self._log = History()
        self._groups = GroupHistory()
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.randint(1, 5))]
        self._members = random.randint(2, 4)
        self._dreams = random.choice((0.0, 0.05))
        self._is_static = random.random() < 0.2
        self._crews: list[Crew] = []
        observing: Options = {"bootstrap_servers": day.bootstrap, "group_id": GROUP}
        self._observer = Observer("observer", self._groups, self._partitions, observing)

    def _member(self, name: str) -> GroupMember:
        options = self.day.member_options()
        if self._is_static:
            options["group_instance_id"] = name.partition(".")[0]
        habits = Habits(TOPIC, self.day.random.random() < 0.5, self._dreams)
        return GroupMember(
            name, self._groups, self._log, options, habits, is_current=self._is_current
        )

    def _is_current(self, name: str) -> bool:
        return any(crew.is_current(name) for crew in self._crews)

    def _feeder(self, name: str) -> Feeder:
        options: Options = {
            "bootstrap_servers": self.day.bootstrap,
            "linger_ms": self.day.random.choice((0, 50)),
            "request_timeout_ms": 5000,
        }
        return Feeder(name, self._log, self._partitions, self.day.random.randint(20, 60), options)

    async def live_through(self) -> str:
        day, simulation = self.day, self.day.simulation
        await day.morning({TOPIC: len(self._partitions)})
        places = {f"member-{n}": self._member for n in range(self._members)}
        # In place before their programs ask who is current.
        self._crews = [
            Crew(simulation, day.random, {"feeder": self._feeder}),
            Crew(simulation, day.random, places),
        ]
        feeders, members = self._crews
        watching = simulation.host("observer")
        watching.start(self._observer.run, "observer")
        await day.pass_time([members, members, feeders])
        await day.weather.clear()
        feeders.rest(refill=False)
        members.rest()
        await feeders.finished()
        watching.kill()
        final = await day.operator(self._read)
        for partition, records in final.items():
            self._log.read_at_the_end(partition, records)
        ends = {one: records[-1][0] + 1 for one, records in final.items() if records}
        await self._group_catches_up(ends)
        members.end()
        found = violations(self._log, idempotent=True)
        log = {one: [offset for offset, _ in records] for one, records in final.items()}
        judge([*found, *group_violations(self._groups, log)])
        return self._summary(members)

    async def _read(self, world: World) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        return await read_all(world, self._partitions, self.day.reader_options("read_uncommitted"))

    async def _group_catches_up(self, ends: dict[TopicPartition, int]) -> None:
        told: dict[TopicPartition, int] = {}

        async def is_done() -> bool:
            told.update(await self.day.operator(self._observer.look))
            return all(told.get(one) == end for one, end in ends.items())

        await self.day.until(is_done, lambda: f"the group stands at {told}, the ends are {ends}")

    def _summary(self, members: Crew) -> str:
        commits = self._groups.commits
        generations = {one.generation for one in self._groups.ownerships}
        return (
            f"{self.day.protocol} {self.day.assignor}, {self.day.weather.faults} faults,"
            f" {members.replaced} members replaced, {len(generations)} generations,"
            f" {sum(one.is_acknowledged for one in commits)} of {len(commits)} commits"
            f" acknowledged, {len(self._log.sends)} records"
        )


async def groups(simulation: Simulation) -> str:
    """Plays a bad day and says what it came to."""
    return await GroupDay(simulation).live_through()
