"""Producers with one transactional id, on a network that delays, repeats and loses requests.

The coordinator is the machine, partitions are real logs. Producers speak transactions version 2.
Whatever order things come in:

- an epoch of a producer is one transaction, and has one outcome, the same in every partition;
- a producer that was told its transaction is committed has all its acknowledged records
  committed; one that was told it is aborted has none;
- a transaction is committed only if its producer asked for just that;
- once another producer has started, the one before achieves nothing any more;
- epochs never fall.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    decode_end_transaction_marker,
    decode_records,
    encode_end_transaction_marker,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId, TopicPartition
from odradek.storage import AppendRejected, Log
from odradek.storage.producer_state import UNVERIFIED, TransactionNotOpen, Verification
from odradek.transactions.commands import ProducerIdResult
from odradek.transactions.transaction import Status
from tests.unit.storage.storage_world import NOW_MS, make_batch, make_log, read_slice
from tests.unit.transactions.driver import ID, A, B, Coordinator

PARTITIONS = (A, B)
CLIENTS = range(2)
ACTIONS = ("produce a", "produce b", "commit", "abort", "start", "start again")
FATES = ("answered", "answered", "lost", "late")
NOBODY = (-1, -1)
_AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS}

Response = ProducerIdResult | ErrorCode


class Transaction(NamedTuple):
    """What a producer believes of one transaction."""

    producer_id: int
    epoch: int


class Client:
    """Asks one thing at a time, and asks it again until it is answered."""

    def __init__(self) -> None:
        self.identity: tuple[int, int] | None = None
        self.generation = 0
        self.sequences: dict[TopicPartition, int] = {}
        self.acknowledged: list[bytes] = []
        self.must_abort = False
        self.asks: Callable[[], Response | None] | None = None
        self.hears: Callable[[Response], None] = lambda _: None

    def become(self, identity: tuple[int, int] | None) -> None:
        self.identity = identity
        self.sequences = {}
        self.acknowledged = []
        self.must_abort = False


class TransactionsOnABadNetwork(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.logs = {partition: make_log() for partition in PARTITIONS}
        self.clients = [Client() for _ in CLIENTS]
        self.delayed: list[Callable[[], Response | None]] = []
        self.told: dict[Transaction, tuple[bool, list[bytes]]] = {}
        self.highest: dict[int, int] = {}
        self.records = 0
        self.generation = 0
        self.asked_to_commit: set[Transaction] = set()

    # What producers do

    @rule(
        number=st.sampled_from(CLIENTS),
        action=st.sampled_from(ACTIONS),
        fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=3),
    )
    def act(self, number: int, action: str, fates: list[str]) -> None:
        """A producer asks for something, or again for what it was not answered."""
        client = self.clients[number]
        if client.asks is None:
            self._ask(client, action)
        for fate in fates:
            if client.asks is not None:
                self._deliver(client, fate)

    def _ask(self, client: Client, action: str) -> None:
        if client.identity is None or action == "start":
            self._start(client, names_itself=False)
        elif action == "start again":
            self._start(client, names_itself=True)
        elif action == "commit":
            self._end(client, committed=not client.must_abort)
        elif action == "abort" or client.must_abort:
            self._end(client, committed=False)
        else:
            self._produce(client, A if action == "produce a" else B)

    def _start(self, client: Client, *, names_itself: bool) -> None:
        identity = client.identity if names_itself and client.identity else NOBODY

        def hear(response: Response) -> None:
            assert isinstance(response, ProducerIdResult)
            worked = response.error is ErrorCode.NONE
            client.become(response[1:] if worked else None)
            if worked and identity == NOBODY:
                client.generation = self.generation

        def start() -> ProducerIdResult:
            response = self.coordinator.init(identity, timeout_ms=50)
            if identity == NOBODY and response.error is ErrorCode.NONE:
                self.generation += 1
            return response

        client.asks = start if identity == NOBODY else self._fenced(client, start)
        client.hears = hear

    def _fenced(
        self, client: Client, request: Callable[[], Response | None]
    ) -> Callable[[], Response | None]:
        """Whatever a producer asks for must fail once another one has started."""
        generation = client.generation

        def ask() -> Response | None:
            response = request()
            error = response.error if isinstance(response, ProducerIdResult) else response
            assert error is not ErrorCode.NONE or generation == self.generation
            return response

        return ask

    def _produce(self, client: Client, partition: TopicPartition) -> None:
        assert client.identity is not None
        sequence = client.sequences.get(partition, 0)
        client.sequences[partition] = sequence + 1
        self.records += 1
        value = b"%d" % self.records
        batch = make_batch([value], producer=(*client.identity, sequence), is_transactional=True)

        def hear(response: Response) -> None:
            if response is ErrorCode.NONE:
                client.acknowledged.append(value)
            else:
                client.must_abort = True

        request = Produce(self, partition, batch, client.identity)
        client.asks = self._fenced(client, request.deliver)
        client.hears = hear

    def _end(self, client: Client, *, committed: bool) -> None:
        assert client.identity is not None
        identity = client.identity

        def hear(response: Response) -> None:
            assert isinstance(response, ProducerIdResult)
            if response.error is not ErrorCode.NONE:
                client.become(None)
                return
            transaction = Transaction(*identity)
            assert transaction not in self.told, "one transaction ended twice"
            self.told[transaction] = committed, client.acknowledged
            client.become(response[1:])

        if committed:
            self.asked_to_commit.add(Transaction(*identity))
        request = partial(self.coordinator.end, identity, committed=committed)
        client.asks = self._fenced(client, request)
        client.hears = hear

    # What the network does

    def _deliver(self, client: Client, fate: str) -> None:
        assert client.asks is not None
        request = client.asks
        if fate == "late":
            # It comes some other time, perhaps often; the client asks again meanwhile.
            self.delayed.append(request)
            return
        response = request()
        error = response.error if isinstance(response, ProducerIdResult) else response
        if fate == "answered" and response is not None and error not in _AGAIN:
            client.asks = None
            client.hears(response)

    @precondition(lambda self: self.delayed)
    @rule(data=st.data(), repeats=st.booleans())
    def deliver_late(self, data: st.DataObject, repeats: bool) -> None:
        index = data.draw(st.integers(0, len(self.delayed) - 1))
        request = self.delayed[index] if repeats else self.delayed.pop(index)
        request()

    # What brokers do

    @precondition(lambda self: ID in self.coordinator.machine.prepared)
    @rule(partitions=st.sampled_from([{A, B}, {A, B}, {A}, {B}]))
    def write_markers(self, partitions: set[TopicPartition]) -> None:
        """Some of the markers; all are needed before the coordinator hears of it."""
        decided = self.coordinator.machine.prepared[ID]
        missing = set(decided.partitions)
        for partition in sorted(partitions & missing):
            producers = self.logs[partition].producers
            if producers.check_marker(
                decided.producer_id, decided.producer_epoch, 0, is_bumped=decided.has_bumped_epoch
            ):
                committed = decided.status is Status.PREPARE_COMMIT
                marker = encode_end_transaction_marker(
                    EndTransactionMarker(ControlType.COMMIT if committed else ControlType.ABORT, 0),
                    producer_id=decided.producer_id,
                    producer_epoch=decided.producer_epoch,
                    timestamp_ms=NOW_MS,
                )
                self.logs[partition].append(
                    marker, leader_epoch=LeaderEpoch(0), by_coordinator=True
                )
        if missing <= partitions:
            assert self.coordinator.write_markers() is ErrorCode.NONE

    @rule(by_ms=st.sampled_from([1, 20, 60]))
    def pass_time(self, by_ms: int) -> None:
        self.coordinator.pass_time(by_ms)

    @rule()
    def move_coordinator(self) -> None:
        self.coordinator.reload()

    # What must be so

    @invariant()
    def epochs_never_fall(self) -> None:
        for transaction in self.coordinator.machine.transactions.values():
            highest = self.highest.get(transaction.producer_id, -1)
            assert transaction.producer_epoch >= highest
            self.highest[transaction.producer_id] = transaction.producer_epoch

    def teardown(self) -> None:
        self.coordinator.pass_time(60)
        if ID in self.coordinator.machine.prepared:
            self.write_markers(set(PARTITIONS))
        outcomes: dict[Transaction, set[bool]] = {}
        values: dict[bytes, bool] = {}
        for log in self.logs.values():
            for transaction, committed, value in decided_records(log):
                outcomes.setdefault(transaction, set()).add(committed)
                assert value not in values, "a record was written twice"
                values[value] = committed
        for transaction, found in outcomes.items():
            assert len(found) == 1, f"{transaction} is both committed and aborted"
            assert found == {False} or transaction in self.asked_to_commit
        for transaction, (committed, acknowledged) in self.told.items():
            assert outcomes.get(transaction, {committed}) == {committed}
            assert all(values.get(value) is committed for value in acknowledged)


class Produce:
    """A produce request on the broker: it may be overtaken while the coordinator is asked."""

    def __init__(
        self,
        world: TransactionsOnABadNetwork,
        partition: TopicPartition,
        batch: bytes,
        identity: tuple[int, int],
    ) -> None:
        self.world = world
        self.partition = partition
        self.batch = batch
        self.identity = identity
        self.verified: Verification | None = None

    def deliver(self) -> Response | None:
        """None if it is under way: the next delivery goes on."""
        log = self.world.logs[self.partition]
        verified, self.verified = self.verified, None
        try:
            log.append(self.batch, leader_epoch=LeaderEpoch(0), verification=verified or UNVERIFIED)
        except TransactionNotOpen:
            guard = log.producers.last_marker_offset(ProducerId(self.identity[0]))
            added = self.world.coordinator.add(self.identity, self.partition)
            if added.error is not ErrorCode.NONE:
                return added.error
            self.verified = Verification(guard)
            return None
        except AppendRejected as refusal:
            return refusal.code
        return ErrorCode.NONE


def decided_records(log: Log) -> list[tuple[Transaction, bool, bytes]]:
    """Every record, of which transaction it is, and whether that was committed."""
    assert not log.producers.ongoing, "a transaction hangs"
    data = read_slice(log, Offset(0))
    undecided: list[tuple[Transaction, bytes]] = []
    decided = []
    for position, header in split_batches(data):
        (record,) = decode_records(data, position)
        if not header.is_control:
            assert record.value is not None
            transaction = Transaction(header.producer_id, header.producer_epoch)
            undecided.append((transaction, record.value))
            continue
        kind = decode_end_transaction_marker(record).control_type
        mine = [one for one in undecided if one[0].producer_id == header.producer_id]
        # By two where a stranger fenced the producer.
        assert all(header.producer_epoch - one.epoch in (1, 2) for one, _ in mine)
        decided += [(one, kind is ControlType.COMMIT, value) for one, value in mine]
        undecided = [one for one in undecided if one not in mine]
    assert not undecided
    return decided


TransactionsOnABadNetwork.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)
TestTransactionsOnABadNetwork = TransactionsOnABadNetwork.TestCase
