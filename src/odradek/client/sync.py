"""The same clients for programs without asyncio.

    from odradek.client.sync import Consumer, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("clicks", b"value").result()      # a concurrent.futures.Future

Each client runs the asyncio one on a loop of its own, in a thread of its own. Calls may come
from any thread. Every method not written out here is the asyncio client's, waited for.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar

import uvloop

from odradek.client.accumulator import OnDelivery, RecordMetadata
from odradek.client.admin import Admin as AsyncAdmin
from odradek.client.consumer import Consumer as AsyncConsumer
from odradek.client.errors import ClientClosed
from odradek.client.fetched import ConsumerRecord
from odradek.client.producer import Producer as AsyncProducer
from odradek.protocol.records import Headers

T = TypeVar("T")
Begun = concurrent.futures.Future
C = TypeVar("C", AsyncProducer, AsyncConsumer, AsyncAdmin)


class LoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> "Begun[T]":
        """Starts something and does not wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class _SyncClient(Generic[C]):
    """Passes every call on to the asyncio client and waits for the answer."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._thread = LoopThread("odradek-client")
        try:
            self._client: C = self._thread.call(_made(make))
        except BaseException:
            self._thread.stop()
            raise

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def waited(*arguments: Any, **options: Any) -> Any:
            return self._thread.call(_finished(found, arguments, options))

        waited.__name__ = name
        waited.__doc__ = found.__doc__
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
        """Puts a record on its way; `result()` of what it returns waits for the delivery.

        `on_delivery` is called in the client's thread.
        """
        delivery: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()

        def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if metadata is not None:
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
        self._thread.call(_finished(self._client.subscribe, topics, options))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield self._thread.call(self._client.__anext__())


class _Elsewhere:
    """A listener whose methods run in another thread, so that they may call the client."""

    def __init__(self, listener: object) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        told = getattr(self._listener, name)
        return lambda *arguments: asyncio.to_thread(told, *arguments)


class Admin(_SyncClient[AsyncAdmin]):
    """`odradek.client.Admin`, waiting where that one awaits."""

    def __init__(self, *settings: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncAdmin(*settings, **options))


async def _made(make: Callable[[], C]) -> C:
    return make()


async def _finished(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Calls on the client's loop and waits for what comes, of whichever kind it is."""
    result = function(*arguments, **options)
    if isinstance(result, AsyncIterator):
        return [one async for one in result]
    if asyncio.iscoroutine(result):
        return await result
    return result
