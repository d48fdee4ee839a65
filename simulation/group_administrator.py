"""An administrator that lists, describes, changes and deletes groups while the faults go on.

Its own groups have no members, and no other client changes them, so what was acknowledged about
them must be true. A request whose answer came late may have been sent twice, and the first one may
still arrive. After such an answer nothing more is expected of that group, and the administrator
continues with a new one. Rules:

    wrong position      an own group's offset is not the one that was acknowledged last
    unlisted group      an own group with offsets is not among the groups
    listed group        an own group that was deleted is among the groups
    two owners          two members are described as owners of one partition
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from odradek.client import Admin, Consumer, ConsumerSettings
from odradek.client.admin.group_types import CONSUMER, GroupDescription, GroupOffset, MemberToRemove
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import Violation
from simulation.group_variations import BROKER_PATTERNS, MORE, PATTERNS, WRONG_PATTERNS
from simulation.group_workload import Refusal
from simulation.workload import Options
from simulation.world import Simulation

DRAFTS: Final = "drafts"
_VISITORS: Final = "visitors"
_TIMEOUT_MS: Final = 2000
# How often the seed takes a step: never, sometimes or often.
_FACTORS: Final = (0.0, 1.0, 1.0, 3.0)

Step = Callable[[Admin, World], Awaitable[None]]


class GroupAdministrator:
    name = "administrator"

    def __init__(
        self, simulation: Simulation, group: str, partitions: list[TopicPartition], bootstrap: str
    ) -> None:
        self.found: list[Violation] = []
        # Every ledger there ever was.
        self.own_groups = ["own-group-1"]
        self._group = group
        self._partitions = partitions
        self._options: Options = {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": _TIMEOUT_MS,
            "default_api_timeout_ms": 3 * _TIMEOUT_MS,
        }
        # What the last ledger surely has; `is_deleted` if it was deleted as a whole.
        self._positions: dict[TopicPartition, int] = {}
        self._is_deleted = False
        self._commits = 0
        self._random = simulation.random("administrator")
        steps: dict[Step, float] = {
            self._commit: 3,
            self._forget: 1,
            self._delete: 1,
            self._check: 3,
            self._list: 2,
            self._describe: 2,
            self._remove_members: 0.5,
            self._change_topics: 1,
            self._visit: 1,
            self._draft: 1,
        }
        factors = [self._random.choice(_FACTORS) for _ in steps]
        self._steps = list(steps)
        self._weights = [
            usual * factor for usual, factor in zip(steps.values(), factors, strict=True)
        ]
        if not any(self._weights):
            self._weights = list(steps.values())

    async def run(self, world: World) -> None:
        async with Admin(self._options, world=world) as admin:
            while True:
                (step,) = self._random.choices(self._steps, self._weights)
                with suppress(*Refusal):
                    await step(admin, world)
                await asyncio.sleep(self._random.uniform(0, 1.5))

    # Ledgers

    @property
    def _own_group(self) -> str:
        return self.own_groups[-1]

    async def _change(self, world: World, change: Awaitable[bool]) -> bool:
        """Whether it was done, and at once."""
        asked_s = world.clock.monotonic_s()
        is_done = False
        with suppress(*Refusal):
            is_done = await change
        if is_done and world.clock.monotonic_s() - asked_s < _TIMEOUT_MS / 1000:
            return True
        self.own_groups.append(f"own-group-{len(self.own_groups) + 1}")
        self._positions = {}
        self._is_deleted = False
        return False

    async def _commit(self, admin: Admin, world: World) -> None:
        self._commits += 1
        partition, offset = self._random.choice(self._partitions), self._commits

        async def ask() -> bool:
            told = await admin.alter_group_offsets(self._own_group, {partition: offset})
            return told[partition] is True

        if await self._change(world, ask()):
            self._positions[partition] = offset
            self._is_deleted = False

    async def _forget(self, admin: Admin, world: World) -> None:
        if not self._positions:
            return
        partition = self._random.choice(list(self._positions))

        async def ask() -> bool:
            told = await admin.delete_group_offsets(self._own_group, [partition])
            return told[partition] is True

        if await self._change(world, ask()):
            del self._positions[partition]

    async def _delete(self, admin: Admin, world: World) -> None:
        if not self._positions:
            return

        async def ask() -> bool:
            return (await admin.delete_groups([self._own_group]))[self._own_group] is True

        if await self._change(world, ask()):
            self._positions = {}
            self._is_deleted = True

    async def _check(self, admin: Admin, world: World) -> None:
        told: dict[TopicPartition, int] = {}
        try:
            answer = await admin.list_group_offsets(self._own_group)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        else:
            for partition, known in answer.items():
                if not isinstance(known, GroupOffset):
                    return
                told[partition] = known.offset
        if told != self._positions:
            detail = f"{told}, acknowledged was {self._positions}"
            self.found.append(Violation("wrong position", self._own_group, detail))

    async def _list(self, admin: Admin, world: World) -> None:
        wanted = self._random.choice(((), ("Empty",), ("Stable", "empty")))
        types = self._random.choice(((), ("classic",), ("Classic", "consumer")))
        listed = {group.group_id for group in await admin.list_groups(states=wanted, types=types)}
        if self._positions and self._own_group not in listed:
            self.found.append(Violation("unlisted group", self._own_group, f"there are {listed}"))
        if self._is_deleted and self._own_group in listed:
            self.found.append(Violation("listed group", self._own_group, "it was deleted"))

    # The group under test

    async def _describe(self, admin: Admin, world: World) -> None:
        asked = [self._group, self._own_group, _VISITORS, "nobody"]
        for described in (await admin.describe_groups(asked)).values():
            if isinstance(described, GroupDescription):
                self._judge(described)

    def _judge(self, described: GroupDescription) -> None:
        if described.type != CONSUMER and described.state != "Stable":
            return
        owners: dict[TopicPartition, str] = {}
        for member in described.members:
            for partition in member.assignment:
                owner = owners.setdefault(partition, member.member_id)
                if owner != member.member_id:
                    detail = f"{owner} and {member.member_id} in {described}"
                    self.found.append(Violation("two owners", partition, detail))

    async def _remove_members(self, admin: Admin, world: World) -> None:
        """They join again. A static member is removed by the name of its instance."""
        if self._random.random() < 0.5:
            await admin.remove_members(self._group)
            return
        one = MemberToRemove("", f"member-{self._random.randrange(4)}")
        await admin.remove_members(self._group, [one])

    # Topics, and groups with and without members

    async def _change_topics(self, admin: Admin, world: World) -> None:
        match self._random.randrange(3):
            case 0:
                await admin.delete_topic(MORE)
            case 1:
                await admin.create_topic(MORE, self._random.randint(1, 3), 1)
            case _:
                await admin.create_partitions({MORE: self._random.randint(2, 5)})

    async def _draft(self, admin: Admin, world: World) -> None:
        """Commits an offset in a topic that may be deleted, which deletes the offset."""
        await admin.alter_group_offsets(DRAFTS, {TopicPartition(MORE, 0): 1})

    async def _visit(self, admin: Admin, world: World) -> None:
        """Joins a group for a short time, with one protocol or the other, and then deletes its
        offsets and the group if they can be deleted."""
        options: Options = {
            **self._options,
            "group_id": _VISITORS,
            "group_protocol": self._random.choice(("classic", "consumer")),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
        }
        if self._random.random() < 0.3:
            options["group_instance_id"] = "visitor"
        topic = self._partitions[0].topic
        async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
            if self._random.random() < 0.5:
                consumer.subscribe([topic])
            else:
                patterns: tuple[str, ...] = PATTERNS
                if options["group_protocol"] == "consumer":
                    patterns = (*BROKER_PATTERNS, *WRONG_PATTERNS)
                consumer.subscribe(pattern=self._random.choice(patterns))
            with suppress(*Refusal):
                taken = await consumer.poll(3000)
                await consumer.commit(
                    {partition: records[-1].offset + 1 for partition, records in taken.items()}
                )
            with suppress(*Refusal):
                # Refused while it is subscribed to, and while there are members.
                await admin.delete_group_offsets(_VISITORS, self._partitions)
                await admin.delete_groups([_VISITORS])
        if self._random.random() < 0.5:
            with suppress(*Refusal):
                await admin.delete_group_offsets(_VISITORS, self._partitions)
                await admin.delete_groups([_VISITORS])
