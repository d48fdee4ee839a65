"""Producers that take one transactional id from each other, request by request.

Each instance of a producer sends single requests, one after the other, and decides by the answers
alone. No client library retries anything in between. Links between brokers are cut, so that markers
are late, and brokers are killed. In half of the runs producer ids are used up after a few epochs.

    zombie             a fenced producer was answered as if it had not been fenced
    shut out           a producer that was not fenced was told that it was
    shared identity    two instances were given one producer id and epoch
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from odradek.client.coordinator_lookup import KeyType
from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.world import World
from simulation.checkers import Violation
from simulation.scenarios.transactions import few_epochs
from simulation.simulated_cluster import Brokers
from simulation.verdicts import require_no_violations
from simulation.walk import Walk
from simulation.world import Simulation

TOPIC: Final = "ledger"
ID: Final = "banker"
_PARTITIONS: Final = 3
_TIMEOUT_MS: Final = 600_000
_HIGHEST_OF_CLIENTS: Final = 3
_SHUT_OUT: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
# After these answers it is known that nothing was changed.
_UNCHANGED: Final = (
    *_SHUT_OUT,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
)
_WEIGHTS: Final = {"add": 2.0, "end": 2.0, "rival": 2.0, "turns": 2.0}
_THEMES: Final = (
    ("take", "add", "end", "turns"),
    ("take", "add", "rival", "zombie", "end"),
    ("take", "add", "end", "zombie", "kill", "hold"),
)

R = TypeVar("R", bound=Response)


class Identity(NamedTuple):
    producer_id: int
    producer_epoch: int


@dataclass(slots=True, eq=False)
class ProducerInstance:
    """One instance of the producer. Of one that is not `is_sure` nothing is claimed: the fate of a
    request is unknown."""

    number: int
    identity: Identity
    is_open: bool = False
    is_sure: bool = True
    ended_before: tuple[Identity, bool] | None = None

    def __str__(self) -> str:
        return f"instance {self.number} as {tuple(self.identity)}"


class FencingWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("fencing")
        self._simulation = simulation
        self._brokers = Brokers(simulation, 2, _properties(random))
        self._end_version = random.choice((4, 5, 5))
        self._found: list[Violation] = []
        self._instances = 0
        self._given: dict[Identity, ProducerInstance] = {}
        self._current: ProducerInstance | None = None
        self._fenced: list[ProducerInstance] = []
        self._walk = Walk(
            simulation,
            {
                "take": self._take,
                "again": self._again,
                "add": self._add,
                "end": self._end,
                "end-again": self._end_again,
                "turns": self._turns,
                "rival": self._rival,
                "zombie": self._zombie,
                "hold": self._hold,
                "kill": self._kill,
                "wait": self._wait,
            },
            _WEIGHTS,
            ("take", "add", "end"),
            _THEMES,
        )

    # Requests

    async def _ask(self, message: Request, answer: type[R], max_version: int) -> R | None:
        """Sends one request to the coordinator. Returns None if its outcome is unknown."""

        async def ask(world: World) -> R:
            async with self._brokers.admin(world) as admin:
                coordinator = await admin.coordinator(KeyType.TRANSACTION, ID)
                connection = await admin.connection(coordinator.id)
                return await connection.request(message, answer, max_version=max_version)

        try:
            return await self._brokers.ask(ask, 20.0)
        except (TimeoutError, ClientError, KafkaError):
            return None

    def _note(self, instance: ProducerInstance | None, what: str, code: int | None) -> None:
        told = "nothing" if code is None else ErrorCode(code).name
        self._simulation.trace.add("-", f"{instance} asks to {what} and is told {told}")

    def _judge_answer(self, instance: ProducerInstance, what: str, code: int | None) -> None:
        """Checks the answer to the producer that holds the id, as far as that is known."""
        self._note(instance, what, code)
        if code is None or (code and code not in _UNCHANGED):
            instance.is_sure = False
        elif code in _SHUT_OUT and instance.is_sure:
            detail = f"{instance} asked to {what} and was told {ErrorCode(code).name}"
            self._found.append(Violation("shut out", ID, detail))

    async def _init(self, identity: Identity | None) -> InitProducerIdResponse | None:
        producer_id, epoch = identity or (-1, -1)
        return await self._ask(
            InitProducerIdRequest(
                transactional_id=ID,
                transaction_timeout_ms=_TIMEOUT_MS,
                producer_id=ProducerId(producer_id),
                producer_epoch=ProducerEpoch(epoch),
            ),
            InitProducerIdResponse,
            4,
        )

    async def _add_as(self, instance: ProducerInstance) -> int | None:
        answer = await self._ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=ProducerId(instance.identity.producer_id),
                v3_and_below_producer_epoch=ProducerEpoch(instance.identity.producer_epoch),
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(_PARTITIONS)))
                ],
            ),
            AddPartitionsToTxnResponse,
            _HIGHEST_OF_CLIENTS,
        )
        if answer is None:
            return None
        (topic,) = answer.results_by_topic_v3_and_below
        return max(result.partition_error_code for result in topic.results_by_partition)

    async def _end_as(self, identity: Identity, *, committed: bool) -> EndTxnResponse | None:
        return await self._ask(
            EndTxnRequest(
                transactional_id=ID,
                producer_id=ProducerId(identity.producer_id),
                producer_epoch=ProducerEpoch(identity.producer_epoch),
                committed=committed,
            ),
            EndTxnResponse,
            self._end_version,
        )

    # Steps of the producer that holds the id

    async def _take(self) -> None:
        """A producer without an identity takes the id. The one that held it is fenced."""
        before = self._current
        answer = await self._init(None)
        code = None if answer is None else answer.error_code
        self._note(None, "begin", code)
        if answer is not None and not code:
            if before is not None:
                self._fenced.append(before)
            self._instances += 1
            identity = Identity(answer.producer_id, answer.producer_epoch)
            self._current = ProducerInstance(self._instances, identity)
            self._was_given(self._current)
        elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
            if before is not None and before.is_sure and before.is_open:
                # Its transaction is aborted. No producer holds the id until one asks again.
                self._fenced.append(before)
                self._current = None
        elif before is not None:
            before.is_sure = False

    def _was_given(self, instance: ProducerInstance) -> None:
        other = self._given.setdefault(instance.identity, instance)
        if other is not instance:
            numbers = f"{other.number} and {instance.number}"
            detail = f"{tuple(instance.identity)} was given to instances {numbers}"
            self._found.append(Violation("shared identity", ID, detail))

    async def _holder(self) -> ProducerInstance | None:
        if self._current is None:
            await self._take()
        return self._current

    async def _again(self) -> None:
        """The holder asks for its next epoch, as after an error."""
        instance = await self._holder()
        if instance is None:
            return
        answer = await self._init(instance.identity)
        code = None if answer is None else answer.error_code
        self._judge_answer(instance, "begin again", code)
        if answer is not None and not code:
            instance.identity = Identity(answer.producer_id, answer.producer_epoch)
            instance.is_open, instance.ended_before = False, None
            self._was_given(instance)
        elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
            instance.is_sure = False  # Its transaction may be aborted under the next epoch.

    async def _add(self) -> None:
        instance = await self._holder()
        if instance is not None:
            code = await self._add_as(instance)
            self._judge_answer(instance, "add partitions", code)
            if code == ErrorCode.NONE:
                instance.is_open = True

    async def _end(self) -> None:
        instance = await self._holder()
        if instance is None:
            return
        committed = self._random.random() < 0.6
        answer = await self._end_as(instance.identity, committed=committed)
        code = None if answer is None else answer.error_code
        self._judge_answer(instance, "commit" if committed else "abort", code)
        if answer is not None and not code:
            instance.ended_before = (instance.identity, committed)
            instance.is_open = False
            if answer.producer_id >= 0:
                instance.identity = Identity(answer.producer_id, answer.producer_epoch)
                self._was_given(instance)

    async def _end_again(self) -> None:
        """Repeats a request as if its answer had been lost. The answer may not change anything."""
        instance = self._current
        if instance is not None and instance.ended_before is not None and self._end_version > 4:
            identity, committed = instance.ended_before
            answer = await self._end_as(identity, committed=committed)
            self._note(instance, "end again", None if answer is None else answer.error_code)

    async def _turns(self) -> None:
        """One transaction after the other; the next begins while markers are on their way."""
        for _ in range(self._random.randint(2, 6)):
            await self._add()
            is_held = self._random.random() < 0.4
            if is_held:
                self._cut()
            await self._end()
            await self._add()
            if is_held:
                self._heal()
                await asyncio.sleep(self._random.uniform(0, 1))

    # Steps of others

    async def _rival(self) -> None:
        """Another producer takes the id while markers cannot be written, and sends nothing more.
        The producer that it has fenced tries to abort."""
        await self._add()
        self._cut()
        await self._take()
        self._heal()
        await asyncio.sleep(self._random.uniform(0, 2))
        await self._zombie()

    async def _zombie(self) -> None:
        if not self._fenced:
            return
        instance = self._random.choice((self._fenced[-1], self._random.choice(self._fenced)))
        chance = self._random.random()
        if chance < 0.2:
            what, code = "add partitions", await self._add_as(instance)
        elif chance < 0.4:
            what = "begin again"
            begun = await self._init(instance.identity)
            code = None if begun is None else begun.error_code
        else:
            what = "commit" if chance < 0.6 else "abort"
            ended = await self._end_as(instance.identity, committed=chance < 0.6)
            code = None if ended is None else ended.error_code
        self._note(instance, what, code)
        if code == ErrorCode.NONE and instance.is_sure:
            detail = f"{instance} asked to {what} and was not refused"
            self._found.append(Violation("zombie", ID, detail))

    # Faults

    def _cut(self) -> None:
        self._simulation.network.cut("broker-1", "broker-2")

    def _heal(self) -> None:
        self._simulation.network.heal("broker-1", "broker-2")

    async def _hold(self) -> None:
        """Cuts brokers off from each other, so that markers are late."""
        self._cut()
        after_s = self._random.choice((0.1, 1.0, 3.0))
        self._simulation.loop.call_later(after_s, self._heal, context=self._simulation.no_process)

    async def _kill(self) -> None:
        broker = self._random.choice(self._brokers.all)
        broker.kill()
        await asyncio.sleep(self._random.choice((0.0, 0.5)))
        broker.start()

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.choice((0.01, 0.1, 1.0)))

    # The run

    async def run(self) -> str:
        brokers = self._brokers
        if self._random.random() < 0.5:
            few_epochs(self._simulation)
        brokers.start()
        try:
            await brokers.create_topic(TOPIC, _PARTITIONS, 1)
            await self._walk.take(self._random.randint(8, 25))
            self._simulation.trace.add("-", "everything heals")
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            require_no_violations(self._found)
        finally:
            brokers.end()
        fenced = len(self._fenced)
        return f"{self._instances} instances, {fenced} of them fenced; {self._walk.summary()}"


def _properties(random: Random) -> dict[str, Any]:
    return {
        "auto.create.topics.enable": "false",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "offsets.topic.replication.factor": "1",
        "log.segment.bytes": random.choice(("2000", "1073741824")),
    }


async def fencing(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await FencingWalk(simulation).run()
