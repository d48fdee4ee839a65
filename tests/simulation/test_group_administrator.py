"""The rules of the group administrator can be broken: by a client that changes its groups."""

import asyncio

from odradek.client import Admin
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation import Simulation, run
from simulation.group_administrator import GroupAdministrator
from simulation.simulated_broker import SimulatedBroker

PARTITION = TopicPartition("orders", 0)


def rules_broken(tamper: str) -> list[str]:
    """What the administrator finds after somebody else deleted its group, or moved it."""

    async def main(simulation: Simulation) -> list[str]:
        broker = SimulatedBroker(simulation, MemoryMetadata())
        broker.start()
        await asyncio.sleep(1)
        administrator = GroupAdministrator(simulation, "workers", [PARTITION], broker.address)

        async def work(world: World) -> None:
            async with Admin(world=world, bootstrap_servers=broker.address) as admin:
                await admin.create_topic(PARTITION.topic, 1, 1)
                await administrator._commit(admin, world)
                group = administrator.own_groups[-1]
                if tamper == "delete":
                    await admin.delete_groups([group])
                elif tamper == "move":
                    await admin.alter_group_offsets(group, {PARTITION: 1000})
                await administrator._check(admin, world)
                await administrator._list(admin, world)

        await simulation.host("administrator").start(work)
        return [one.rule for one in administrator.found]

    return run(main, 1).value


def test_a_clerk_whose_ledgers_nobody_touches_finds_nothing() -> None:
    assert rules_broken("not") == []


def test_a_ledger_that_was_moved_stands_elsewhere() -> None:
    assert rules_broken("move") == ["wrong position"]


def test_a_ledger_that_is_gone_has_no_position_and_is_not_listed() -> None:
    assert rules_broken("delete") == ["wrong position", "unlisted group"]
