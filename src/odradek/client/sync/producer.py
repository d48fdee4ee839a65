"""`odradek.client.Producer` for programs without asyncio."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Never, Self, Unpack

from odradek.client.errors import ClientClosed
from odradek.client.group.offsets import GroupMetadata, OffsetsToCommit
from odradek.client.habits import DELIVERY, PRODUCER, answers, in_close, in_flush, waits
from odradek.client.producer.deliveries import OnDelivery, RecordMetadata
from odradek.client.producer.interceptors import ProducerInterceptor
from odradek.client.producer.producer import Producer as AsyncProducer
from odradek.client.producer.record_bytes import GivenHeaders, check_callback
from odradek.client.producer.transaction_requests import Identity
from odradek.client.settings import ProducerSettings
from odradek.client.sync.loop_thread import Begun
from odradek.client.sync.waiting import WaitingClient
from odradek.wording import counted
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import ProducerOptions

_log = logging.getLogger("odradek.client")
# How long a program that ends without close() waits for the records that are left.
_EXIT_TIMEOUT_MS: Final = 5_000


@answers(DELIVERY)
class Delivery(Begun[RecordMetadata]):
    """The future of a delivery, which answers habits of kafka-python's futures and of asyncio."""

    def __await__(self) -> Never:
        raise TypeError(
            "send() of odradek.client.sync returns a future of threads: write"
            " send(...).result() to wait, or with asyncio use odradek.client.Producer"
        )


@waits
@answers(PRODUCER)
class Producer(WaitingClient[AsyncProducer]):
    """`odradek.client.Producer`, waiting where that one awaits."""

    def __init__(
        self,
        settings: ProducerSettings | Mapping[str, object] | None = None,
        /,
        *,
        interceptors: Sequence[ProducerInterceptor] = (),
        world: World | None = None,
        **options: "Unpack[ProducerOptions]",
    ) -> None:
        """Nothing is sent, and no broker is contacted, before the first call.

        Settings are keyword arguments, a `ProducerSettings`, or a dict with Kafka's names:
        `Producer(linger_ms=20)`, `Producer({"linger.ms": 20})`. All are described in
        docs/reference/client-settings.md.
        """
        super().__init__(
            lambda: AsyncProducer(settings, interceptors=interceptors, world=world, **options)
        )
        _not_closed[id(self)] = self

    @property
    def settings(self) -> ProducerSettings:
        """The settings of this client."""
        return self._client.settings

    @in_close
    def close(self, timeout_ms: int | None = None) -> None:
        """Sends the remaining records and waits for them; after `timeout_ms` they fail.

        A program that ends without it sends them too, with a warning, within five seconds.
        """
        self._close(lambda: self._client.close(timeout_ms))
        _not_closed.pop(id(self), None)

    def _end_with_program(self) -> None:
        """Sends what is left, so that no record is lost silently."""
        try:
            left = self.undelivered
        except ClientClosed:
            return  # It was made before a fork: the parent process sends its records.
        if left:
            _log.warning(
                "the program ends and has not closed a producer: waiting up to %d s for %s;"
                " call close(), or use `with`",
                _EXIT_TIMEOUT_MS // 1000,
                counted(left, "record"),
            )
            self.close(_EXIT_TIMEOUT_MS)
        super()._end_with_program()

    @property
    def undelivered(self) -> int:
        """How many records are neither acknowledged nor failed."""
        return self._run(lambda: self._client.undelivered)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *unnamed: Never,
        partition: int | None = None,
        headers: GivenHeaders = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        **others: Never,
    ) -> "Begun[RecordMetadata]":
        """Sends a record; `result()` of the returned future waits for the delivery.

        `on_delivery` is called in the client's thread, and must not call the client.
        """
        check_callback(on_delivery)
        delivery = Delivery()

        def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if not delivery.set_running_or_notify_cancel():
                pass  # The program cancelled the future: it does not want to know.
            elif metadata is not None:
                delivery.set_result(metadata)
            else:
                delivery.set_exception(error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        self._wait(
            self._client.send(
                topic,
                value,
                key,
                *unnamed,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
                on_delivery=delivered,
                **others,
            )
        )
        return delivery

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begins a transaction, and commits it at the end or aborts it when something raises."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self.may_abort:
                self.abort_transaction()
            raise

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *unnamed: Never,
        partition: int | None = None,
        headers: GivenHeaders = (),
        timestamp_ms: int | None = None,
        **others: Never,
    ) -> RecordMetadata:
        """Sends a record, waits for its delivery and returns its metadata."""
        return self._wait(
            self._client.send_and_wait(
                topic,
                value,
                key,
                *unnamed,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
                **others,
            )
        )

    def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic."""
        return self._wait(self._client.partitions_for(topic))

    @in_flush
    def flush(self, timeout_ms: int | None = None) -> None:
        """Returns when all that was sent so far is acknowledged or has failed.

        After `timeout_ms`, if that is given, it raises `TimedOut`; the records are sent on.
        """
        self._wait(self._client.flush(timeout_ms))

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return self._run(self._client.metrics)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Returns the id under which brokers know this client's metrics."""
        return self._wait(self._client.client_instance_id(timeout_ms))

    def init_transactions(self) -> None:
        """Must be called once, before the first transaction.

        It fences older producers with the same transactional id; a transaction that such a
        producer left open is aborted before this returns.
        """
        self._wait(self._client.init_transactions())

    def begin_transaction(self) -> None:
        """Begins a transaction: every record that is sent from now on is part of it."""
        self._wait(self._client.begin_transaction())

    def commit_transaction(self) -> None:
        """Waits for the delivery of all records and commits them.

        Raises `MustAbort` if a record failed: only `abort_transaction` can follow. Raises
        `ProducerFenced` if this producer must be closed. After a time-out, call it again.
        """
        self._wait(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        """Aborts the transaction: consumers with `read_committed` will not see its records."""
        self._wait(self._client.abort_transaction())

    def hand_over_transaction(self) -> Identity:
        """Waits for the records in flight; the transaction stays open when this producer closes.

        `Admin.end_transactions` commits or aborts it, in this process or another, unless a newer
        producer of the same transactional id or `transaction.timeout.ms` has aborted it before.
        """
        return self._wait(self._client.hand_over_transaction())

    def send_offsets_to_transaction(
        self, offsets: OffsetsToCommit, group: GroupMetadata | str
    ) -> None:
        """Commits a group's offsets with the transaction: of the next records to read.

        `group` is `Consumer.group_metadata()`, so that a consumer which is no longer a member
        cannot commit; the consumer itself must not (enable_auto_commit=False).
        """
        self._wait(self._client.send_offsets_to_transaction(offsets, group))

    @property
    def may_abort(self) -> bool:
        """Returns whether a transaction is open that `abort_transaction` could end."""
        return self._client.may_abort


# The producers that are open. A program may have no other reference to one that still sends.
_not_closed: dict[int, Producer] = {}
