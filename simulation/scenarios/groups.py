"""A consumer group whose members join, leave, are killed, paused and stalled.

They share a topic by the classic protocol (eager or cooperative) or by the one of KIP-848, and
commit what they have read. In the end the group must have been given every record, no partition may
have had two owners, and committed offsets may never have gone back. Some runs are more varied
(`group_variations`). After some, the clock is stepped and groups without members must expire.
"""

import asyncio

from odradek.client import Admin
from odradek.client.admin.group_types import GroupDescription, GroupOffset
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, Violation, violations
from simulation.client_pool import ClientPool
from simulation.group_administrator import DRAFTS, GroupAdministrator
from simulation.group_checkers import GroupHistory, Log, group_violations
from simulation.group_resets import ResetWatch
from simulation.group_variations import EXPIRATION_MS, GroupVariations
from simulation.group_workload import GroupMember, MemberBehaviour, Observer
from simulation.scenarios.faulty_cluster import GROUP, OFFSETS_PARTITIONS, FaultyCluster
from simulation.transaction_workload import read_all
from simulation.verdicts import Anomaly, require_no_violations
from simulation.workload import Options, ProducingClient
from simulation.world import Simulation

TOPIC = "orders"
# Virtual time after which the sessions of members that died have ended.
_SESSIONS_ARE_OVER_S = 20.0


class Feeder(ProducingClient):
    """Sends all its records; the pool does not ask it to leave."""

    is_leaving = False


class GroupScenario:
    def __init__(self, simulation: Simulation) -> None:
        self._variations = GroupVariations(simulation, TOPIC)
        self.cluster = cluster = FaultyCluster(simulation, 1, self._variations.properties())
        random = cluster.random
        self._log = History()
        self._groups = GroupHistory()
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.randint(1, 5))]
        self._members = random.randint(2, 4)
        self._stall_probability = random.choice((0.0, 0.05))
        self._is_static = random.random() < 0.2
        self._pools: list[ClientPool] = []
        observing: Options = {"bootstrap_servers": cluster.bootstrap, "group_id": GROUP}
        self._observer = Observer("observer", self._groups, self._partitions, observing)
        self._resets: ResetWatch | None = None
        if self._variations.is_mixed and not cluster.is_compacting:
            (broker,) = cluster.brokers
            self._resets = ResetWatch(broker, GROUP, OFFSETS_PARTITIONS)
        self._administrator = GroupAdministrator(
            simulation, GROUP, self._partitions, cluster.bootstrap
        )

    def _member(self, name: str) -> GroupMember:
        options = self.cluster.member_options()
        if self._is_static:
            options["group_instance_id"] = name.partition(".")[0]
        options = self._variations.member_options(options)
        topics, pattern = self._variations.subscription(options)
        habits = MemberBehaviour(
            TOPIC,
            self.cluster.random.random() < 0.5,
            self._stall_probability,
            topics=tuple(topics),
            pattern=pattern,
        )
        return GroupMember(
            name, self._groups, self._log, options, habits, is_current=self._is_current
        )

    def _is_current(self, name: str) -> bool:
        return any(pool.is_current(name) for pool in self._pools)

    def _feeder(self, name: str) -> Feeder:
        options: Options = {
            "bootstrap_servers": self.cluster.bootstrap,
            "linger_ms": self.cluster.random.choice((0, 50)),
            "request_timeout_ms": 5000,
        }
        return Feeder(
            name, self._log, self._partitions, self.cluster.random.randint(20, 60), options
        )

    async def run(self) -> str:
        cluster, simulation = self.cluster, self.cluster.simulation
        await cluster.start({TOPIC: len(self._partitions), **self._variations.more_topics})
        places = {f"member-{n}": self._member for n in range(self._members)}
        # In place before their programs ask who is current.
        self._pools = [
            ClientPool(simulation, cluster.random, {"feeder": self._feeder}),
            ClientPool(simulation, cluster.random, places),
        ]
        feeders, members = self._pools
        watching = simulation.host("observer")
        watching.start(self._observer.run, "observer")
        if self._resets is not None:
            simulation.host("watch").start(self._resets.run, "watch")
        administering = None
        if self._variations.has_administrator:
            administering = simulation.host("administrator").start(
                self._administrator.run, "administrator"
            )
        await cluster.run_with_faults([members, members, feeders])
        await cluster.faults.heal()
        feeders.stop_faults(refill=False)
        members.stop_faults()
        await feeders.finished()
        watching.kill()
        if administering is not None:
            if administering.done():
                administering.result()  # It never ends but by an error.
            simulation.host("administrator").kill()
        final = await cluster.operator(self._read)
        for partition, records in final.items():
            self._log.read_at_the_end(partition, records)
        ends = {
            topic_partition: records[-1][0] + 1
            for topic_partition, records in final.items()
            if records
        }
        await self._group_catches_up(ends)
        if self._variations.has_expiration:
            await self._unused_groups_expire(ends)
        members.kill_all()
        found = violations(self._log, idempotent=True)
        log = {
            topic_partition: [offset for offset, _ in records]
            for topic_partition, records in final.items()
        }
        require_no_violations([*found, *self._group_violations(log), *self._administrator.found])
        if self._variations.has_expiration:
            await self._group_expires()
        return self._summary(members)

    def _group_violations(self, log: Log) -> list[Violation]:
        """All rules, except `two owners` where compaction hides when generations began anew."""
        if self._resets is not None:
            self._resets.look(self.cluster.simulation.loop.time())
            self._groups.resets = self._resets.resets
        found = group_violations(self._groups, log)
        if self._variations.is_mixed and self._resets is None:
            return [violation for violation in found if violation.rule != "two owners"]
        return found

    # Expiration

    async def _unused_groups_expire(self, ends: dict[TopicPartition, int]) -> None:
        """A group with members keeps its offsets; groups without members lose them."""
        if not await self.cluster.operator(self._is_active):
            return
        self.cluster.brokers[0].host.clock.step(EXPIRATION_MS)
        unused = {*self._administrator.own_groups, DRAFTS}
        await self.cluster.until(
            lambda: self._are_gone(unused), lambda: f"the end of the groups {sorted(unused)}"
        )
        if await self.cluster.operator(self._is_active):
            if not await self.cluster.operator(self._positions):
                raise Anomaly(f"expired in {GROUP}: no offset is left, the ends are {ends}")
            # An asynchronous commit from before may still arrive, over a connection that its member
            # has given up, and put the group back until the next commit.
            await self._group_catches_up(ends)

    async def _group_expires(self) -> None:
        """Without members the group expires as well, and does not come back after a restart."""
        broker = self.cluster.brokers[0]
        await asyncio.sleep(_SESSIONS_ARE_OVER_S)
        broker.host.clock.step(EXPIRATION_MS)
        await self.cluster.until(lambda: self._are_gone({GROUP}), lambda: f"the end of {GROUP}")
        broker.kill()
        broker.start()
        left = await self.cluster.operator(self._positions)
        if left or not await self._are_gone({GROUP}):
            raise Anomaly(f"came back: {GROUP} was gone before the restart")

    def _admin(self, world: World) -> Admin:
        return Admin(world=world, bootstrap_servers=self.cluster.bootstrap, request_timeout_ms=3000)

    async def _is_active(self, world: World) -> bool:
        async with self._admin(world) as admin:
            described = (await admin.describe_groups([GROUP]))[GROUP]
        return (
            isinstance(described, GroupDescription)
            and described.state == "Stable"
            and any(member.assignment for member in described.members)
        )

    async def _positions(self, world: World) -> dict[TopicPartition, int]:
        async with self._admin(world) as admin:
            told = await admin.list_group_offsets(GROUP)
        return {
            partition: known.offset
            for partition, known in told.items()
            if isinstance(known, GroupOffset)
        }

    async def _are_gone(self, groups: set[str]) -> bool:
        async def look(world: World) -> bool:
            async with self._admin(world) as admin:
                while True:
                    try:
                        listed = {group.group_id for group in await admin.list_groups()}
                    except (ClientError, KafkaError):
                        await asyncio.sleep(0.2)
                    else:
                        return not listed & groups

        return await self.cluster.operator(look)

    async def _read(self, world: World) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        return await read_all(
            world, self._partitions, self.cluster.reader_options("read_uncommitted")
        )

    async def _group_catches_up(self, ends: dict[TopicPartition, int]) -> None:
        told: dict[TopicPartition, int] = {}

        async def is_done() -> bool:
            told.update(await self.cluster.operator(self._observer.look))
            return all(told.get(partition) == end for partition, end in ends.items())

        await self.cluster.until(
            is_done, lambda: f"the group stands at {told}, the ends are {ends}"
        )

    def _summary(self, members: ClientPool) -> str:
        commits = self._groups.commits
        generations = {ownership.generation for ownership in self._groups.ownerships}
        return (
            f"{self.cluster.protocol} {self.cluster.assignor}, {self.cluster.faults.count} faults,"
            f" {members.replaced} members replaced, {len(generations)} generations,"
            f" {sum(commit.is_acknowledged for commit in commits)} of {len(commits)} commits"
            f" acknowledged, {len(self._log.sends)} records"
        )


async def groups(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await GroupScenario(simulation).run()
