"""The clerk's rules can be broken: by somebody who works on its ledgers behind its back."""

import asyncio

from odradek.client import Admin
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation import Simulation, run
from simulation.cluster import SimulatedBroker
from simulation.group_clerk import Clerk

PARTITION = TopicPartition("orders", 0)


def rules_broken(tamper: str) -> list[str]:
    """What the clerk finds after somebody else deleted its ledger, or moved it."""

    async def main(simulation: Simulation) -> list[str]:
        broker = SimulatedBroker(simulation, MemoryMetadata())
        broker.start()
        await asyncio.sleep(1)
        clerk = Clerk(simulation, "workers", [PARTITION], broker.address)

        async def work(world: World) -> None:
            async with Admin(world=world, bootstrap_servers=broker.address) as admin:
                await admin.create_topic(PARTITION.topic, 1, 1)
                await clerk._commit(admin, world)
                ledger = clerk.ledgers[-1]
                if tamper == "delete":
                    await admin.delete_groups([ledger])
                elif tamper == "move":
                    await admin.alter_group_offsets(ledger, {PARTITION: 1000})
                await clerk._check(admin, world)
                await clerk._list(admin, world)

        await simulation.host("clerk").start(work)
        return [one.rule for one in clerk.found]

    return run(main, 1).value


def test_a_clerk_whose_ledgers_nobody_touches_finds_nothing() -> None:
    assert rules_broken("not") == []


def test_a_ledger_that_was_moved_stands_elsewhere() -> None:
    assert rules_broken("move") == ["wrong position"]


def test_a_ledger_that_is_gone_has_no_position_and_is_not_listed() -> None:
    assert rules_broken("delete") == ["wrong position", "unlisted group"]
