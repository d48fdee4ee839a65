"""Topics that are deleted and created again, DeleteRecords, retention, settings, ACLs.

One or two brokers. A producer writes, an operator deletes records, deletes the topic and creates it
again, and two administrators change settings at once. Brokers are killed, stopped and run out of
file descriptors. A lone broker also loses its metadata store and adopts the logs that it finds.
Each incarnation of the topic is checked by itself (`topic_incarnation`).
"""

import asyncio
import errno
from random import Random
from typing import Final

from odradek.client.errors import OffsetOutOfRange
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.administrators import Administrators
from simulation.checkers import Violation
from simulation.malformed_batches import send_malformed_batch
from simulation.on_demand_producer import OnDemandProducer
from simulation.simulated_cluster import Brokers
from simulation.stores import LoneStore
from simulation.topic_incarnation import TopicIncarnation
from simulation.transaction_workload import read_all
from simulation.verdicts import require_no_violations
from simulation.walk import Step, Walk
from simulation.workload import Options
from simulation.world import Simulation

TOPIC: Final = "orders"
_COORDINATOR_PARTITIONS: Final = 2
_DELIVERY_S: Final = 3.0

_WEIGHTS: Final = {"write": 4.0, "start": 3.0, "lose-store": 0.7, "renew": 1.0}
_ALWAYS: Final = ("write", "start")
_THEMES: Final = (
    ("write", "rebirth", "renew", "delete-records", "kill", "stop", "start"),
    ("write", "descriptors", "starve", "create", "wait"),
    ("write", "lose-store", "start", "commit", "kill"),
    ("write", "settings", "internal", "peek", "malformed-batch", "kill", "start"),
    ("write", "wait", "delete-records", "stop", "kill", "start"),
)


class TopicWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("topics")
        self._simulation = simulation
        simulation.worker_delay_s = (0.0, random.choice((0.001, 0.02, 0.3)))
        count = random.choice((1, 1, 1, 2))
        self._store = LoneStore() if count == 1 and random.random() < 0.7 else None
        self._has_retention = random.random() < 0.35
        properties = _properties(random, count, self._has_retention)
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.choice((1, 1, 2)))]
        # Between its deletion and its creation the producer's request for metadata may create the
        # topic. It then has the partitions that the producer writes to.
        properties["num.partitions"] = str(len(self._partitions))
        properties["default.replication.factor"] = str(count)
        self._brokers = Brokers(simulation, count, properties, store=self._store)
        self._incarnation = TopicIncarnation(has_retention=self._has_retention)
        self._incarnations = 1
        self._settled_s = 0.0
        self._producers = 0
        self._producer = self._new_scribe()
        self._admins = Administrators(self._brokers, random)
        self._created: list[str] = []
        self._walk = Walk(simulation, self._steps(), _WEIGHTS, _ALWAYS, _THEMES)

    def _new_scribe(self) -> OnDemandProducer:
        self._producers += 1
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "enable_idempotence": True,
            "linger_ms": self._random.choice((0, 5)),
            "request_timeout_ms": 1000,
            "delivery_timeout_ms": round(_DELIVERY_S * 1000),
            "max_block_ms": 1500,
        }
        name = f"producer-{self._producers}"
        return OnDemandProducer(name, self._incarnation.history, self._partitions, options)

    def _steps(self) -> dict[str, Step]:
        steps: dict[str, Step] = {
            "write": self._write,
            "another-producer": self._another_producer,
            "delete-records": self._delete_records,
            "renew": self._renew,
            "rebirth": self._rebirth,
            "create": self._create,
            "kill": self._kill,
            "stop": self._stop,
            "start": self._start,
            "wait": self._wait,
            "descriptors": self._descriptors,
            "starve": self._starve,
            "settings": self._settings,
            "commit": self._commit,
            "malformed-batch": self._malformed_batch,
            "internal": self._admins.ask_for_internal,
            "peek": self._peek,
        }
        if self._store is not None:
            steps["lose-store"] = self._lose_store
        return steps

    # Steps

    async def _write(self) -> None:
        self._producer.write(self._random.choice((1, 1, 3, 12)))
        await asyncio.sleep(self._random.choice((0.02, 0.1, 0.5)))

    async def _another_producer(self) -> None:
        await self._quiet()
        self._simulation.host(self._producer.name).kill()
        self._producer = self._new_scribe()
        self._simulation.host(self._producer.name).start(self._producer.run, self._producer.name)

    async def _delete_records(self) -> None:
        partition = self._random.choice(self._partitions)
        end = self._incarnation.end_of(partition)
        if end <= 0:
            return
        before = self._random.randint(1, end)
        self._incarnation.asked[partition] = max(self._incarnation.asked.get(partition, 0), before)
        self._brokers.invariants.may_delete(partition, before)

        async def delete(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                told = (await admin.delete_records({partition: before}))[partition]
                if not isinstance(told, int):
                    raise told
            deleted = self._incarnation.deleted
            deleted[partition] = max(deleted.get(partition, 0), before)

        await self._brokers.try_to(delete, 3.0)

    async def _quiet(self) -> None:
        """Waits until every send was answered, so that what follows belongs to the next
        incarnation."""
        self._start_all()
        await self._brokers.until(lambda: not self._producer.unanswered, lambda: "a send", 30.0)

    async def _renew(self) -> None:
        """Deletes the topic and creates another one of the same name."""
        self._start_all()
        await self._quiet()

        async def delete(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                while True:
                    try:
                        await admin.delete_topic(TOPIC)
                    except KafkaError as error:
                        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                            return
                    await asyncio.sleep(0.05)

        await self._brokers.ask(delete)
        self._incarnation = TopicIncarnation(has_retention=self._has_retention)
        self._incarnations += 1
        self._settled_s = self._simulation.loop.time() + 1.0
        self._admins.forget_settings(TOPIC)
        self._admins.forget_positions()
        await self._make_topic()
        if self._random.random() < 0.5:
            await self._another_producer()
        self._producer.history = self._incarnation.history

    async def _rebirth(self) -> None:
        """Deletes records, creates the topic again and restarts a broker. No checkpoint of the
        first topic may be applied to the second."""
        self._producer.write(12)
        await self._quiet()
        await self._delete_records()
        await self._renew()
        self._producer.write(self._random.choice((1, 4, 12)))
        await self._quiet()
        await self._random.choice((self._stop, self._kill))()
        await self._start()

    async def _create(self) -> None:
        """Creates another topic. If that was acknowledged, it must take records at the end."""
        name = f"made-{len(self._created)}"

        async def create(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                await admin.create_topic(name, 1, len(self._brokers.all))

        if len(self._created) < 3 and await self._brokers.try_to(create, 3.0):
            self._created.append(name)

    async def _kill(self) -> None:
        broker = self._random.choice(self._brokers.all)
        broker.kill()
        broker.host.disk.heal()

    async def _stop(self) -> None:
        broker = self._random.choice(self._brokers.all)
        broker.host.disk.heal()
        await broker.stop()

    async def _start(self) -> None:
        self._start_all()
        await asyncio.sleep(self._random.choice((0.0, 0.3, 1.0)))

    def _start_all(self) -> None:
        for broker in self._brokers.all:
            broker.start()

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.choice((0.5, 3.0, 10.0)))

    async def _descriptors(self) -> None:
        """Lets every open of a file fail for a while."""
        broker = self._random.choice(self._brokers.all)
        if not broker.is_running:
            return
        code = self._random.choice((errno.EMFILE, errno.ENFILE))
        broker.host.disk.fail_next("open", code, times=1 << 30)
        self._simulation.loop.call_later(
            self._random.choice((0.3, 2.0, 6.0)),
            broker.host.disk.heal,
            context=self._simulation.no_process,
        )

    async def _starve(self) -> None:
        """Lets files fail to open at the time when records expire."""
        self._producer.write(6)
        await asyncio.sleep(self._random.uniform(3, 5))
        await self._descriptors()
        await asyncio.sleep(self._random.uniform(1, 4))

    async def _settings(self) -> None:
        await self._admins.change_settings(TOPIC)

    async def _commit(self) -> None:
        # A broker that hears late of the deletion forgets what was committed for the name, as
        # Kafka does.
        await self._until_settled()
        await self._admins.commit(self._random.choice(self._partitions))

    async def _malformed_batch(self) -> None:
        await send_malformed_batch(self._brokers, self._random, TOPIC, self._admins.found)

    async def _peek(self) -> None:
        await self._admins.look_for_hidden(TOPIC)

    async def _lose_store(self) -> None:
        """Removes the file of the metadata store. The logs stay."""
        assert self._store is not None
        (broker,) = self._brokers.all
        if self._random.random() < 0.6:
            # A short-lived producer: another one that got its id would start with the same sequence
            # numbers.
            await self._another_producer()
            for _ in range(self._random.randint(1, 3)):
                self._producer.write(1)
                await asyncio.sleep(0.1)
        await self._quiet()
        if self._random.random() < 0.5:
            await broker.stop()
        broker.kill()
        self._store.lose()
        self._brokers.simulation.trace.add("-", "the metadata store is lost")
        self._created.clear()  # Those without a log are gone, and need not be missed.
        self._admins.store_was_lost()
        self._brokers.invariants.store_was_lost()
        broker.host.disk.heal()
        missing = [
            partition
            for partition in self._partitions
            if not broker.host.disk.exists(f"/data/{partition}")
        ]
        broker.start()
        await asyncio.sleep(0.5)
        if missing:
            await self._create_again(missing)
        if self._random.random() < 0.7:
            await self._another_producer()
            self._producer.write(1)

    async def _create_again(self, missing: list[TopicPartition]) -> None:
        """Creates the partitions that no log told the new store of: there was no descriptor left
        to make their logs, so only the lost store knew them, and nothing was written to them."""
        require_no_violations(
            Violation("lost log", send.partition, f"{send.value!r} was acknowledged")
            for send in self._incarnation.history.sends
            if send.partition in missing and send.offset is not None
        )
        if len(missing) == len(self._partitions):
            await self._make_topic()
            return

        async def create(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                (error,) = (await admin.create_partitions({TOPIC: len(self._partitions)})).values()
                if error is not None and error.code is not ErrorCode.INVALID_PARTITIONS:
                    raise error  # INVALID_PARTITIONS: a log of a higher number told of this one.

        await self._brokers.ask(create)

    # The run

    async def _make_topic(self) -> None:
        configs = {}
        if self._has_retention:
            configs = {"retention.bytes": "2000", "retention.ms": "5000"}
        await self._brokers.create_topic(
            TOPIC, len(self._partitions), len(self._brokers.all), configs
        )

    async def _until_settled(self) -> None:
        """Waits until every broker has heard of the new topic: a broker whose image is old shows
        the deleted topic of the same name."""
        await asyncio.sleep(max(0.0, self._settled_s - self._simulation.loop.time()))

    async def run(self) -> str:
        brokers = self._brokers
        brokers.start()
        try:
            await self._make_topic()
            if self._random.random() < 0.3:
                await self._admins.hide_a_topic()
            self._simulation.host(self._producer.name).start(
                self._producer.run, self._producer.name
            )
            await self._walk.take(self._random.randint(8, 30))
            self._simulation.trace.add("-", "everything heals")
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            await self._quiet()
            await self._until_settled()
            await self._judge()
        finally:
            brokers.end()
            if self._store is not None:
                self._store.end()
        return self._summary()

    async def _judge(self) -> None:
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "none",
            "request_timeout_ms": 5000,
        }
        found = await self._read_all(options)
        wrong = list(self._incarnation.violations(found))
        await self._brokers.ask(self._admins.check_settings)
        await self._brokers.ask(self._admins.check_positions)
        await self._brokers.ask(
            lambda world: self._admins.check_internal(world, _COORDINATOR_PARTITIONS)
        )
        require_no_violations([*wrong, *self._admins.found, *await self._useless()])

    async def _read_all(self, options: Options) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        """Reads every partition; again if retention took its first records meanwhile."""
        while True:
            try:
                return await self._brokers.ask(
                    lambda world: read_all(world, self._partitions, options)
                )
            except OffsetOutOfRange:
                if not self._has_retention:
                    raise

    async def _useless(self) -> list[Violation]:
        """Violations for created topics that take no records."""
        if not self._created:
            return []
        incarnation = TopicIncarnation()
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "delivery_timeout_ms": 20_000,
            "max_block_ms": 5000,
            "request_timeout_ms": 2000,
        }
        partitions = [TopicPartition(name, 0) for name in self._created]
        producer = OnDemandProducer("last-producer", incarnation.history, partitions, options)
        host = self._simulation.host(producer.name)
        host.start(producer.run, producer.name)
        producer.write(4 * len(partitions))
        await self._brokers.until(lambda: not producer.unanswered, lambda: "a send", 60.0)
        host.kill()
        return [
            Violation("useless", send.partition, "a topic that was made takes no records")
            for send in incarnation.history.sends
            if send.offset is None
        ]

    def _summary(self) -> str:
        history = self._incarnation.history
        store = "sqlite" if self._store is not None else "another store"
        return (
            f"{len(self._brokers.all)} brokers, {store},"
            f" {self._incarnations} incarnations of the topic,"
            f" {history.acknowledged_count()} of {len(history.sends)} acknowledged in the last;"
            f" {self._walk.summary()}"
        )


def _properties(random: Random, count: int, has_retention: bool) -> dict[str, str]:
    properties = {
        "auto.create.topics.enable": random.choice(("true", "false")),
        "log.segment.bytes": random.choice(("600", "2000", "1073741824")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("1000", "60000", "60000")),
        "log.flush.start.offset.checkpoint.interval.ms": random.choice(
            ("500", "3000", "3000", "60000")
        ),
        "log.segment.delete.delay.ms": random.choice(("0", "2000", "60000")),
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": random.choice(("1000", "300000")),
        "offsets.topic.num.partitions": str(_COORDINATOR_PARTITIONS),
        "offsets.topic.replication.factor": str(count),
        "transaction.state.log.num.partitions": str(_COORDINATOR_PARTITIONS),
        "transaction.state.log.replication.factor": str(count),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:root",
    }
    if has_retention:
        properties["log.retention.check.interval.ms"] = "1000"
    return properties


async def topics(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await TopicWalk(simulation).run()
