"""Idempotent writers whose answers get lost, on a compacted topic whose replicas are rebuilt.

Several writers change the same few keys. Each sends one batch at a time, by single requests, so
the scenario decides which answers a writer hears. A writer that heard nothing sends the same batch
again, with the same sequence number, to whichever broker leads by then. Meanwhile other writers
replace its value, brokers compact the log all the time, and a replica that is rebuilt from the
compacted log on an empty disk becomes the leader. Only the log itself can tell the new leader what
each producer wrote last (the cleaner keeps the last batch of every producer, empty if need be). A
key is deleted while a follower is away, perhaps for longer than `delete.retention.ms`; the follower
comes back with the old value, and leads.

    duplicate    one value stands at two offsets: a retry was written again
    refused      a writer that sends its sequence numbers in order was told that it does not
    stale        the newest record of a key is older than one that was committed
    gone         nothing of a key is there any more, though it was not deleted

No step loses data: a disk is replaced only while another replica holds everything.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final

from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import Violation
from simulation.compaction_workload import STATES, read_keyed
from simulation.simulated_cluster import Brokers
from simulation.verdicts import require_no_violations
from simulation.walk import Walk
from simulation.workload import Options
from simulation.world import Simulation

PARTITION: Final = TopicPartition(STATES, 0)
_WRITERS: Final = 3
_KEYS: Final = 2
_DELETED_KEY: Final = b"key-to-delete"
# The highest version that names topics by their names.
_PRODUCE_VERSION: Final = 9
_PATIENCE_S: Final = 20.0
_REFUSALS: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)
_WEIGHTS: Final = {"write": 2.0, "write-unheard": 2.0, "fill": 2.0, "start": 2.0}
_ALWAYS: Final = ("write-unheard", "fill", "start")
_THEMES: Final = (
    ("write-unheard", "fill", "rebuild", "change-leader", "retry"),
    ("delete-while-away", "write", "start"),
)


@dataclass(slots=True, eq=False)
class Write:
    """One batch of a writer: a value, or None to delete the key. `is_open` until the writer has
    heard what became of it."""

    key: bytes
    value: bytes | None
    sequence: int
    is_open: bool = True


class Writer:
    """An idempotent producer. It sends no new batch while the last one is open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.producer_id = -1
        self.producer_epoch = -1
        self.last: Write | None = None
        self._count = 0

    @property
    def is_waiting(self) -> bool:
        return self.last is not None and self.last.is_open

    def next_write(self, key: bytes, *, deletes: bool) -> Write:
        assert not self.is_waiting
        value = None if deletes else f"{self.name}:{self._count}".encode()
        self.last = Write(key, value, self._count)
        self._count += 1
        return self.last


class RetryWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("retries")
        self._simulation = simulation
        self._replicas = random.choice((2, 2, 3))
        self._brokers = Brokers(simulation, self._replicas, _properties(random))
        self._writers = [Writer(f"writer-{number}") for number in range(1, _WRITERS + 1)]
        self._found: list[Violation] = []
        # Where each value was seen: in an answer, or in the log of a replica in sync.
        self._offsets: dict[bytes, int] = {}
        # The highest offset at which each key was seen, and the value there.
        self._newest: dict[bytes, tuple[int, bytes | None]] = {}
        self._retries = self._rebuilds = 0
        self._walk = Walk(
            simulation,
            {
                "write": self._write,
                "write-unheard": self._write_unheard,
                "retry": self._retry,
                "fill": self._fill,
                "rebuild": self._rebuild,
                "delete-while-away": self._delete_while_away,
                "change-leader": self._change_leader,
                "kill": self._kill,
                "start": self._start,
                "wait": self._wait,
            },
            _WEIGHTS,
            _ALWAYS,
            _THEMES,
        )

    # Writers

    async def _write(self) -> None:
        await self._send(self._choose_writer(), is_heard=True)

    async def _write_unheard(self) -> None:
        """The batch reaches the leader, the answer does not reach the writer."""
        await self._send(self._choose_writer(), is_heard=False)

    async def _retry(self) -> None:
        waiting = [writer for writer in self._writers if writer.is_waiting]
        if waiting:
            await self._send(self._random.choice(waiting), is_heard=self._random.random() < 0.8)

    async def _fill(self) -> None:
        """Writers that wait for nothing replace every key, until there are segments to compact."""
        for _ in range(3):
            idle = [writer for writer in self._writers if not writer.is_waiting]
            for writer in idle[:1]:
                for number in range(_KEYS):
                    await self._send(writer, is_heard=True, key=_key(number))
                    if writer.is_waiting:
                        return
        await asyncio.sleep(self._random.choice((0.05, 0.3, 1.0)))

    def _choose_writer(self) -> Writer:
        return self._random.choice(self._writers)

    async def _send(
        self, writer: Writer, *, is_heard: bool, key: bytes | None = None, deletes: bool = False
    ) -> None:
        """Sends the open batch of the writer again, or its next one."""
        if writer.producer_id < 0 and not await self._begin(writer):
            return
        if writer.last is not None and writer.last.is_open:
            write = writer.last
            self._retries += 1
        else:
            key = key or _key(self._random.randrange(_KEYS))
            write = writer.next_write(key, deletes=deletes)
        answer = await self._produce(writer, write)
        code = "nothing" if answer is None else ErrorCode(answer.error_code).name
        self._simulation.trace.add("-", f"{write} is told {code if is_heard else 'nothing'}")
        if answer is not None and is_heard:
            self._hear(writer, write, answer)
        self._look()

    def _hear(self, writer: Writer, write: Write, answer: PartitionProduceResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code in _REFUSALS:
            self._found.append(
                Violation("refused", PARTITION, f"{writer.name} sent {write}: {code.name}")
            )
        if code is ErrorCode.NONE:
            self._note(write.key, write.value, answer.base_offset)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            write.is_open = False

    async def _begin(self, writer: Writer) -> bool:
        async def ask(world: World) -> InitProducerIdResponse:
            async with self._brokers.admin(world) as admin:
                connection = await admin.connection(None)
                return await connection.request(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                    InitProducerIdResponse,
                )

        try:
            answer = await self._brokers.ask(ask, _PATIENCE_S)
        except (TimeoutError, ClientError, KafkaError):
            return False
        if answer.error_code:
            return False
        writer.producer_id, writer.producer_epoch = answer.producer_id, answer.producer_epoch
        return True

    async def _produce(self, writer: Writer, write: Write) -> PartitionProduceResponse | None:
        """One request to the leader; None if there is none, or no answer."""
        leader = self._brokers.leader_of(PARTITION)
        if leader is None or not leader.is_running:
            return None

        async def ask(world: World) -> ProduceResponse:
            builder = BatchBuilder()
            builder.append(write.key, write.value, (), world.clock.now_ms())
            batch = builder.build(
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
                base_sequence=write.sequence,
            )
            data = [PartitionProduceData(index=PARTITION.partition, records=batch)]
            topics = [TopicProduceData(name=STATES, partition_data=data)]
            async with self._brokers.admin(world) as admin:
                connection = await admin.connection(leader.node_id)
                return await connection.request(
                    ProduceRequest(acks=-1, timeout_ms=2000, topic_data=topics),
                    ProduceResponse,
                    max_version=_PRODUCE_VERSION,
                )

        try:
            answer = await self._brokers.ask(ask, _PATIENCE_S)
        except (TimeoutError, ClientError, KafkaError):
            return None
        return answer.responses[0].partition_responses[0]

    # What is seen

    def _look(self) -> None:
        """Notes what the replicas in sync hold below the high watermark."""
        leader = self._brokers.leader_of(PARTITION)
        led = (
            ()
            if leader is None
            else [partition.topic_partition for partition in leader.partitions()]
        )
        if PARTITION not in led:
            return
        for records in self._brokers.invariants.replicas_in_sync(PARTITION).values():
            for record in records:
                assert record.key is not None
                self._note(record.key, record.value, record.offset)

    def _note(self, key: bytes, value: bytes | None, offset: int) -> None:
        before = offset if value is None else self._offsets.setdefault(value, offset)
        if before != offset:
            detail = f"{value!r} stands at {before} and at {offset}"
            self._found.append(Violation("duplicate", PARTITION, detail))
        if offset >= self._newest.get(key, (-1, b""))[0]:
            self._newest[key] = (offset, value)

    # Brokers

    async def _until_whole(self) -> None:
        self._start_all()
        await self._brokers.until(self._brokers.is_healthy, self._brokers.describe_unhealthy)

    async def _rebuild(self) -> None:
        """A follower gets an empty disk and copies the log as it is by now, compacted."""
        await self._until_whole()
        leader = self._brokers.leader_of(PARTITION)
        followers = [broker for broker in self._brokers.all if broker is not leader]
        follower = self._random.choice(followers)
        self._rebuilds += 1
        follower.power_off()
        follower.host.disk.replace_by_empty("/data")
        follower.start()
        if self._random.random() < 0.7:
            await self._until_whole()

    async def _delete_while_away(self) -> None:
        """A follower with the value of a key is away while the key is deleted and the log is
        compacted. Then it comes back, and the leader goes."""
        await self._until_whole()
        leader = self._brokers.leader_of(PARTITION)
        followers = [broker for broker in self._brokers.all if broker is not leader]
        idle = [writer for writer in self._writers if not writer.is_waiting]
        if not idle:
            return
        writer = self._random.choice(idle)
        await self._send(writer, is_heard=True, key=_DELETED_KEY)
        if writer.is_waiting:
            return
        self._random.choice(followers).kill()
        await self._send(writer, is_heard=True, key=_DELETED_KEY, deletes=True)
        for _ in range(self._random.randint(1, 3)):
            await self._fill()
            await asyncio.sleep(self._random.choice((0.5, 2.0)))
        await self._change_leader()

    async def _change_leader(self) -> None:
        """The leader stops, cleanly or not, while another replica can take over."""
        await self._until_whole()
        leader = self._brokers.leader_of(PARTITION)
        assert leader is not None
        if self._random.random() < 0.5:
            await leader.stop()
        else:
            leader.kill()
        await asyncio.sleep(self._random.choice((0.1, 1.0)))
        if self._random.random() < 0.7:
            self._start_all()

    async def _kill(self) -> None:
        self._random.choice(self._brokers.all).kill()

    async def _start(self) -> None:
        self._start_all()
        await asyncio.sleep(self._random.choice((0.0, 0.3, 1.0)))

    def _start_all(self) -> None:
        for broker in self._brokers.all:
            broker.start()

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.choice((0.2, 1.0, 5.0)))

    # The run

    async def run(self) -> str:
        brokers = self._brokers
        brokers.start()
        try:
            await brokers.create_topic(STATES, 1, self._replicas, _topic_settings(self._random))
            await self._walk.take(self._random.randint(8, 24))
            self._simulation.trace.add("-", "everything heals")
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            for writer in self._writers:
                while writer.is_waiting:
                    await self._send(writer, is_heard=True)
                    require_no_violations(self._found)
            await self._judge()
        finally:
            brokers.end()
        return self._summary()

    async def _judge(self) -> None:
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "none",
        }
        found = await self._brokers.ask(lambda world: read_keyed(world, [PARTITION], options))
        read = {record.key: record for record in found[PARTITION]}
        for key, (offset, value) in self._newest.items():
            newest = read.get(key)
            if newest is None:
                if value is None:
                    continue
                self._found.append(Violation("gone", PARTITION, f"{key!r}: {value!r} at {offset}"))
            elif newest.offset < offset:
                detail = f"{newest}, but {value!r} was committed at {offset}"
                self._found.append(Violation("stale", PARTITION, detail))
        for record in found[PARTITION]:
            assert record.key is not None
            self._note(record.key, record.value, record.offset)
        require_no_violations(self._found)

    def _summary(self) -> str:
        return (
            f"{self._replicas} brokers, {len(self._offsets)} values, {self._retries} retries,"
            f" {self._rebuilds} replicas rebuilt; {self._walk.summary()}"
        )


def _key(number: int) -> bytes:
    return b"key-%d" % number


def _properties(random: Random) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "log.cleaner.backoff.ms": random.choice(("20", "200")),
        "log.cleaner.min.cleanable.ratio": "0",
        "log.segment.delete.delay.ms": random.choice(("0", "1000")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("1000", "60000")),
        "replica.lag.time.max.ms": "2000",
    }


def _topic_settings(random: Random) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.bytes": random.choice(("200", "400")),
        "delete.retention.ms": random.choice(("100", "100", "86400000")),
    }


async def retries(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await RetryWalk(simulation).run()
