"""The same clients for programs without asyncio.

    from odradek.client.sync import Consumer, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("clicks", b"value").result()      # a concurrent.futures.Future

Each client runs the asyncio one on a loop of its own, in a thread of its own. Calls may come
from any thread. A method that is not written out here calls that of the asyncio client and waits.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar

import uvloop

from odradek.client.admin.admin import Admin as AsyncAdmin
from odradek.client.consumer.consumer import Consumer as AsyncConsumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import ClientClosed
from odradek.client.producer.accumulator import OnDelivery, RecordMetadata
from odradek.client.producer.producer import Producer as AsyncProducer
from odradek.protocol.records import Headers
from odradek.protocol.types import TopicPartition

T = TypeVar("T")
Begun = concurrent.futures.Future
C = TypeVar("C", AsyncProducer, AsyncConsumer, AsyncAdmin)


class _Call(Generic[T]):
    """A coroutine that runs on the client's loop while another thread waits for it.

    All state changes on the loop, so that there is one order of events: either the waiting thread
    has the result, or it was interrupted and `on_unseen` gets the result.
    """

    def __init__(self, work: Coroutine[Any, Any, T], on_unseen: Callable[[T], None] | None) -> None:
        self.outcome: Begun[T] = concurrent.futures.Future()
        self.ended = threading.Event()
        self._work = work
        self._on_unseen = on_unseen
        self._task: asyncio.Task[T] | None = None
        self._is_abandoned = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def abandon(self) -> None:
        """Cancels the work of a thread that was interrupted, and gives back its result."""
        self._is_abandoned = True
        if self._task is None:
            # The thread was interrupted before it could ask for the start.
            self._work.close()
            self.ended.set()
        elif self._task.done():
            self._return_unseen(self._task)
        else:
            self._task.cancel()

    def _finish(self, task: "asyncio.Task[T]") -> None:
        if self._is_abandoned:
            self._return_unseen(task)
        elif task.cancelled():
            self.outcome.set_exception(ClientClosed("the client was closed during this call"))
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def _return_unseen(self, task: "asyncio.Task[T]") -> None:
        try:
            if not task.cancelled() and task.exception() is None and self._on_unseen is not None:
                self._on_unseen(task.result())
        finally:
            self.ended.set()


class LoopThread:
    """An event loop that runs in a thread until it is stopped.

    If a call is interrupted (Ctrl-C, or a signal handler that raises), its coroutine is cancelled,
    and a result that it returned at the same moment is given back. No call waits for ever on a loop
    that was stopped.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        # Signal handlers run in the middle of a call and may call the client again.
        self._lock = threading.RLock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def call(self, work: Coroutine[Any, Any, T], on_unseen: Callable[[T], None] | None = None) -> T:
        """Runs `work` on the loop and returns its result, or raises its exception.

        If this thread is interrupted meanwhile, `work` is cancelled. If it returned nevertheless,
        `on_unseen` is called with the result, on the loop and before any later call.
        """
        call = _Call(work, on_unseen)
        try:
            if not self._submit(call.start):
                work.close()
                raise ClientClosed("the client is closed")
            return call.outcome.result()
        except BaseException as error:
            is_its_own = call.outcome.done() and call.outcome.exception() is error
            # The lock is not held here. A second signal ends this wait, not the cancellation.
            if not is_its_own and self._submit(call.abandon):
                call.ended.wait()
            raise

    def _submit(self, function: Callable[[], None]) -> bool:
        """Makes the loop call a function; returns False if the loop has been stopped."""
        with self._lock:
            if self._is_stopping:
                return False
            self.loop.call_soon_threadsafe(function)
            return True

    def begin(self, work: Coroutine[Any, Any, T]) -> "Begun[T]":
        """Starts a coroutine and does not wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """Cancels all calls and ends the thread; calls that wait raise ClientClosed."""
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _SyncClient(Generic[C]):
    """Passes every call on to the asyncio client and waits for the answer."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._thread = LoopThread("odradek-client")
        try:
            self._client: C = self._thread.call(_call_on_loop(make))
        except BaseException:
            self._thread.stop()
            raise

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if not callable(attribute):
            return attribute

        def waited(*arguments: Any, **options: Any) -> Any:
            return self._thread.call(_call_and_wait(attribute, arguments, options))

        waited.__name__ = name
        waited.__doc__ = attribute.__doc__
        return waited

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client and ends its thread."""
        try:
            self._thread.call(self._client.close())
        except ClientClosed:
            return
        finally:
            self._thread.stop()


class Producer(_SyncClient[AsyncProducer]):
    """`odradek.client.Producer`, waiting where that one awaits."""

    def __init__(self, *settings: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncProducer(*settings, **options))

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> "concurrent.futures.Future[RecordMetadata]":
        """Sends a record; `result()` of the returned future waits for the delivery.

        `on_delivery` is called in the client's thread.
        """
        delivery: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()

        def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if not delivery.set_running_or_notify_cancel():
                pass  # The program cancelled the future: it does not want to know.
            elif metadata is not None:
                delivery.set_result(metadata)
            else:
                delivery.set_exception(error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        self._thread.call(
            self._client.send(
                topic,
                value,
                key,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
                on_delivery=delivered,
            )
        )
        return delivery

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begins a transaction, and commits it at the end or aborts it when something raises."""
        self._thread.call(self._client.begin_transaction())
        try:
            yield self
            self._thread.call(self._client.commit_transaction())
        except BaseException:
            if self._client.may_abort:
                self._thread.call(self._client.abort_transaction())
            raise


class Consumer(_SyncClient[AsyncConsumer]):
    """`odradek.client.Consumer`, waiting where that one awaits; iterate over it for records.

    Rebalance listeners are called in a thread of their own while `poll` waits, and may call
    the client. Commit callbacks are called in the client's thread, and must not.
    """

    def __init__(self, *settings: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncConsumer(*settings, **options))

    def subscribe(self, *topics: Any, listener: object | None = None, **options: Any) -> None:
        """Shares topics with the other members of `group.id`; poll() takes part."""
        if listener is not None:
            options["listener"] = _Elsewhere(listener)
        self._thread.call(_call_and_wait(self._client.subscribe, topics, options))

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns records by partition as soon as there are any, or {} when the time is over.

        If a signal interrupts it (Ctrl-C, say), no record is taken: the next poll returns them.
        """
        client = self._client
        return self._thread.call(client.poll(timeout_ms, max_records), client.return_unseen)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        client = self._client
        while True:
            yield self._thread.call(client.__anext__(), client.return_unseen)


class _Elsewhere:
    """A listener whose methods run in another thread, so that they may call the client."""

    def __init__(self, listener: object) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        callback = getattr(self._listener, name)
        return lambda *arguments: asyncio.to_thread(callback, *arguments)


class Admin(_SyncClient[AsyncAdmin]):
    """`odradek.client.Admin`, waiting where that one awaits."""

    def __init__(self, *settings: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncAdmin(*settings, **options))


async def _call_on_loop(make: Callable[[], C]) -> C:
    return make()


async def _call_and_wait(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Calls a function on the client's loop and waits for its result, awaitable or not."""
    result = function(*arguments, **options)
    if isinstance(result, AsyncIterator):
        return [item async for item in result]
    if asyncio.iscoroutine(result):
        return await result
    return result
