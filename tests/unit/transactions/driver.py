"""A transaction machine on a list, without a loop: what it answers, writes and waits for."""

from collections.abc import Hashable

from odradek.metadata import ClusterImage
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId, TopicPartition
from odradek.statemachine.log_lines import LogLines
from odradek.statemachine.machine import Caller, Command, DecisionContext, LogRecord, R, Written
from odradek.transactions.commands import (
    Added,
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdResult,
)
from odradek.transactions.machine import TransactionMachine, TransactionOutcome
from odradek.transactions.transaction import Status, Transaction

ID = "tx"
MAX_TIMEOUT_MS = 900_000
EXPIRATION_MS = 7_000_000
SWEEP_MS = 3_600_000

A, B, C = (TopicPartition("t", index) for index in range(3))


def typed(identity: tuple[int, int]) -> tuple[ProducerId, ProducerEpoch]:
    return ProducerId(identity[0]), ProducerEpoch(identity[1])


class Coordinator:
    """Runs a machine as the runner does, with a clock that the test moves."""

    def __init__(self, grace_ms: int = 0) -> None:
        self.grace_ms = grace_ms
        self.log: list[LogRecord] = []
        self.now_ms = 1_000_000
        self.fresh_id = 100
        # The ids whose markers were asked for.
        self.prepared: list[str] = []
        self.is_committed = True
        self._log_lines = LogLines(lambda: self.now_ms / 1000)
        self.deadlines: dict[Hashable, int] = {}
        self.machine = self._load()

    def _load(self) -> TransactionMachine:
        self.deadlines.clear()
        machine = TransactionMachine(
            max_timeout_ms=MAX_TIMEOUT_MS,
            expiration_ms=EXPIRATION_MS,
            sweep_ms=SWEEP_MS,
            grace_ms=self.grace_ms,
        )
        for offset, record in enumerate(self.log):
            machine.apply(Written(record, Offset(offset)))
        self._finish(machine.after_load(self._now()))
        return machine

    def reload(self) -> None:
        """Another broker becomes the coordinator."""
        self.prepared.clear()
        self.machine = self._load()

    def _now(self) -> DecisionContext[ClusterImage]:
        return DecisionContext(self.now_ms, ClusterImage(), lambda subject: self.is_committed)

    def ask(self, command: Command[R]) -> R:
        caller: Caller[R] = Caller()
        before = dict(self.machine.transactions)
        outcome = self.machine.decide(command, caller, self._now())
        assert self.machine.transactions == before, "decide changed something"
        self._carry_out(outcome)
        assert [reply.caller for reply in outcome.replies] == [caller]
        reply: R = outcome.replies[0].response
        return reply

    def _carry_out(self, outcome: TransactionOutcome) -> None:
        for record in outcome.records:
            self.machine.apply(Written(record, Offset(len(self.log))))
            self.log.append(record)
        for event in outcome.events:
            self.machine.apply(event)
        self._finish(outcome)

    def _finish(self, outcome: TransactionOutcome) -> None:
        self.prepared += [effect.transactional_id for effect in outcome.effects]
        self._log_lines.write(outcome.log_lines)
        for key, after_ms in outcome.deadlines:
            self.deadlines.pop(key, None)
            if after_ms is not None:
                self.deadlines[key] = self.now_ms + after_ms

    def pass_time(self, by_ms: int) -> None:
        """Time goes by, and every deadline that passes is met in its turn."""
        until_ms = self.now_ms + by_ms
        while due := [(at_ms, key) for key, at_ms in self.deadlines.items() if at_ms <= until_ms]:
            at_ms, key = min(due, key=lambda one: one[0])
            self.now_ms = max(self.now_ms, at_ms)
            del self.deadlines[key]
            self._carry_out(self.machine.expire(key, self._now()))
        self.now_ms = until_ms

    # What clients ask

    @property
    def now(self) -> Transaction:
        return self.machine.transactions[ID]

    def status(self) -> Status:
        return self.now.status

    def init(
        self, identity: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
    ) -> ProducerIdResult:
        self.fresh_id += 1
        return self.ask(InitProducer(ID, timeout_ms, ProducerId(self.fresh_id), *typed(identity)))

    def ask_for(self, transactional_id: str) -> ProducerIdResult:
        """Another producer starts."""
        return self.ask(InitProducer(transactional_id, 60_000, ProducerId(7)))

    def add(
        self,
        identity: tuple[int, int],
        *partitions: TopicPartition,
        version: int = 2,
        verify_only: bool = False,
    ) -> Added:
        return self.ask(
            AddPartitions(ID, *typed(identity), frozenset(partitions), version, verify_only)
        )

    def end(
        self, identity: tuple[int, int], *, committed: bool = True, version: int = 2
    ) -> ProducerIdResult:
        self.fresh_id += 1
        return self.ask(
            EndTransaction(ID, *typed(identity), committed, version, ProducerId(self.fresh_id))
        )

    def write_markers(self) -> object:
        """What the marker writer does with the decided transaction."""
        decided = self.machine.prepared[ID]
        return self.ask(MarkersWritten(ID, decided.producer_id, decided.producer_epoch))
