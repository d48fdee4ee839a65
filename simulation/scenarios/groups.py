"""A group of consumers on a bad day: members join, leave, die, freeze and dream.

They share a topic by the classic protocol (eager or cooperative) or by the new one, and commit
what they have read. When the day is over the group must have been given every record, nobody may
have owned what another one did, and its position may never have gone back. Some days are more
varied (`group_variety`), and a night may follow in which what nobody uses expires.
"""

import asyncio

from odradek.client import Admin
from odradek.client.admin.group_types import GroupDescription, GroupOffset
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, Violation, violations
from simulation.crew import Crew
from simulation.group_checkers import GroupHistory, Log, group_violations
from simulation.group_clerk import DRAFTS, Clerk
from simulation.group_resets import ResetWatch
from simulation.group_variety import NIGHT_MS, GroupVariety
from simulation.group_workload import GroupMember, Habits, Observer
from simulation.scenarios.bad_day import GROUP, OFFSETS_PARTITIONS, Anomaly, BadDay, judge
from simulation.transaction_workload import read_all
from simulation.workload import Options, ProducingClient
from simulation.world import Simulation

TOPIC = "orders"
# Virtual time after which the sessions of members that died have ended.
_SESSIONS_ARE_OVER_S = 20.0


class Feeder(ProducingClient):
    """Has its say to the end: nobody asks it to leave."""

    is_leaving = False


class GroupDay:
    def __init__(self, simulation: Simulation) -> None:
        self._variety = GroupVariety(simulation, TOPIC)
        self.day = day = BadDay(simulation, 1, self._variety.properties())
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
        self._resets: ResetWatch | None = None
        if self._variety.is_mixed and not day.is_compacting:
            (broker,) = day.brokers
            self._resets = ResetWatch(broker, GROUP, OFFSETS_PARTITIONS)
        self._clerk = Clerk(simulation, GROUP, self._partitions, day.bootstrap)

    def _member(self, name: str) -> GroupMember:
        options = self.day.member_options()
        if self._is_static:
            options["group_instance_id"] = name.partition(".")[0]
        options = self._variety.member_options(options)
        topics, pattern = self._variety.subscription(options)
        habits = Habits(
            TOPIC,
            self.day.random.random() < 0.5,
            self._dreams,
            topics=tuple(topics),
            pattern=pattern,
        )
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
        await day.morning({TOPIC: len(self._partitions), **self._variety.more_topics})
        places = {f"member-{n}": self._member for n in range(self._members)}
        # In place before their programs ask who is current.
        self._crews = [
            Crew(simulation, day.random, {"feeder": self._feeder}),
            Crew(simulation, day.random, places),
        ]
        feeders, members = self._crews
        watching = simulation.host("observer")
        watching.start(self._observer.run, "observer")
        if self._resets is not None:
            simulation.host("watch").start(self._resets.run, "watch")
        clerks_day = None
        if self._variety.has_clerk:
            clerks_day = simulation.host("clerk").start(self._clerk.run, "clerk")
        await day.pass_time([members, members, feeders])
        await day.weather.clear()
        feeders.rest(refill=False)
        members.rest()
        await feeders.finished()
        watching.kill()
        if clerks_day is not None:
            if clerks_day.done():
                clerks_day.result()  # It never ends but by an error.
            simulation.host("clerk").kill()
        final = await day.operator(self._read)
        for partition, records in final.items():
            self._log.read_at_the_end(partition, records)
        ends = {one: records[-1][0] + 1 for one, records in final.items() if records}
        await self._group_catches_up(ends)
        if self._variety.has_night:
            await self._unused_groups_expire(ends)
        members.end()
        found = violations(self._log, idempotent=True)
        log = {one: [offset for offset, _ in records] for one, records in final.items()}
        judge([*found, *self._group_violations(log), *self._clerk.found])
        if self._variety.has_night:
            await self._group_expires()
        return self._summary(members)

    def _group_violations(self, log: Log) -> list[Violation]:
        """All rules, but for one where a compacted log hides whether generations began anew."""
        if self._resets is not None:
            self._resets.look(self.day.simulation.loop.time())
            self._groups.resets = self._resets.resets
        found = group_violations(self._groups, log)
        if self._variety.is_mixed and self._resets is None:
            return [violation for violation in found if violation.rule != "two owners"]
        return found

    # The night

    async def _unused_groups_expire(self, ends: dict[TopicPartition, int]) -> None:
        """While its members live, a group keeps its positions; groups without members do not."""
        if not await self.day.operator(self._is_active):
            return
        self.day.brokers[0].host.clock.step(NIGHT_MS)
        unused = {*self._clerk.ledgers, DRAFTS}
        await self.day.until(
            lambda: self._are_gone(unused), lambda: f"the end of the groups {sorted(unused)}"
        )
        if await self.day.operator(self._is_active):
            told = await self.day.operator(self._positions)
            if any(told.get(one, end) != end for one, end in ends.items()) or not told:
                raise Anomaly(f"expired in {GROUP}: it stands at {told}, the ends are {ends}")

    async def _group_expires(self) -> None:
        """When its members are gone too, nothing is left of it, nor after a restart."""
        broker = self.day.brokers[0]
        await asyncio.sleep(_SESSIONS_ARE_OVER_S)
        broker.host.clock.step(NIGHT_MS)
        await self.day.until(lambda: self._are_gone({GROUP}), lambda: f"the end of {GROUP}")
        broker.kill()
        broker.start()
        left = await self.day.operator(self._positions)
        if left or not await self._are_gone({GROUP}):
            raise Anomaly(f"came back: {GROUP} was gone before the restart")

    def _admin(self, world: World) -> Admin:
        return Admin(world=world, bootstrap_servers=self.day.bootstrap, request_timeout_ms=3000)

    async def _is_active(self, world: World) -> bool:
        async with self._admin(world) as admin:
            described = (await admin.describe_groups([GROUP]))[GROUP]
        return (
            isinstance(described, GroupDescription)
            and described.state == "Stable"
            and any(one.assignment for one in described.members)
        )

    async def _positions(self, world: World) -> dict[TopicPartition, int]:
        async with self._admin(world) as admin:
            told = await admin.list_group_offsets(GROUP)
        return {one: known.offset for one, known in told.items() if isinstance(known, GroupOffset)}

    async def _are_gone(self, groups: set[str]) -> bool:
        async def look(world: World) -> bool:
            async with self._admin(world) as admin:
                while True:
                    try:
                        listed = {one.group_id for one in await admin.list_groups()}
                    except (ClientError, KafkaError):
                        await asyncio.sleep(0.2)
                    else:
                        return not listed & groups

        return await self.day.operator(look)

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
