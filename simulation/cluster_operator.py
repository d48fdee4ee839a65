"""The operator of `cluster`: creates the topics, then moves partitions, elects leaders, and creates
and deletes a topic that no client uses."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from odradek.client import Admin
from odradek.client.admin.partitions import ElectionType
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.compaction_workload import STATES, CompactionWorkload
from simulation.world import Simulation

BROKERS: Final = 3
_UNUSED_TOPIC: Final = "passing"

Program = Callable[[World], Coroutine[Any, Any, Any]]


class ClusterOperator:
    """`topics` are the topics of the clients, with their numbers of partitions."""

    def __init__(
        self,
        simulation: Simulation,
        random: Random,
        bootstrap: str,
        topics: Mapping[str, int],
        compaction: CompactionWorkload | None,
    ) -> None:
        self.requests = 0
        self._simulation = simulation
        self._random = random
        self._bootstrap = bootstrap
        self._topics = topics
        self._compaction = compaction

    def _admin(self, world: World) -> Admin:
        return Admin(world=world, bootstrap_servers=self._bootstrap, request_timeout_ms=3000)

    async def create_topics(self, world: World) -> None:
        """Creates the topics of the clients, and tries again until each exists."""
        async with self._admin(world) as admin:
            for name, partitions in self._topics.items():
                configs = None
                if self._compaction is not None and name == STATES:
                    configs = self._compaction.configs
                while True:
                    try:
                        await admin.create_topic(name, partitions, BROKERS, configs)
                    except KafkaError as error:
                        if error.code.name == "TOPIC_ALREADY_EXISTS":
                            break
                    except ClientError:
                        pass
                    else:
                        break
                    await asyncio.sleep(0.1)

    async def send_request(self, patience_s: float) -> None:
        """Sends a random request. While faults go on it need not succeed."""
        program = self._choose_request()
        self.requests += 1
        host = self._simulation.host("operator")
        with suppress(TimeoutError, ClientError, KafkaError):
            async with asyncio.timeout(patience_s):
                await host.start(program, f"operator#{self.requests}")

    def _choose_request(self) -> Program:
        random = self._random
        topic = random.choice(list(self._topics))
        partition = TopicPartition(topic, random.choice(range(self._topics[topic])))
        replicas = random.sample(range(1, BROKERS + 1), random.choice((2, 3, 3)))

        async def move(world: World) -> None:
            async with self._admin(world) as admin:
                await admin.alter_partition_reassignments({partition: replicas})

        async def cancel(world: World) -> None:
            async with self._admin(world) as admin:
                await admin.cancel_partition_reassignments([partition])

        async def elect(world: World) -> None:
            async with self._admin(world) as admin:
                await admin.elect_leaders(ElectionType.PREFERRED)

        async def create(world: World) -> None:
            async with self._admin(world) as admin:
                await admin.create_topic(_UNUSED_TOPIC, 2, random.choice((1, 2, 3)))

        async def delete(world: World) -> None:
            async with self._admin(world) as admin:
                await admin.delete_topic(_UNUSED_TOPIC)

        return random.choice((move, move, cancel, elect, create, delete))
