"""What a serializer or deserializer has prepared, so that a record costs no more than its codec.

A preparation asks the registry and compiles a codec. It is done once for each key, such as a topic
and a field, or a schema id. On the event loop it cannot be done, so `find` raises `MustBlock`
there: the client has it done in a thread.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from odradek.schemas.answer_cache import AnswerCache
from odradek.schemas.errors import RegistryUnreachable
from odradek.world.blocking_calls import MustBlock
from odradek.world.clock import SystemClock

T = TypeVar("T")


class _Prepared(NamedTuple, Generic[T]):
    thing: T
    until_s: float


class Preparations(Generic[T]):
    def __init__(self, capacity: int, ttl_s: float | None = None) -> None:
        """After `ttl_s` a preparation is created again; until that succeeds the old one serves."""
        self._cache = AnswerCache(capacity)
        self._failures: dict[Hashable, Exception] = {}
        self._ttl_s = ttl_s
        self._now_s = SystemClock().monotonic_s

    def find(self, key: Hashable, prepare: Callable[[], T], may_block: bool) -> T:
        prepared: _Prepared[T] | None = self._cache.peek(key)
        if prepared is not None and (self._ttl_s is None or prepared.until_s > self._now_s()):
            return prepared.thing
        if may_block:
            return self._prepared(key, prepare)
        failure = self._failures.pop(key, None)
        if failure is not None:
            raise failure
        raise MustBlock(partial(self._prepare, key, prepare))

    def _prepare(self, key: Hashable, prepare: Callable[[], T]) -> None:
        try:
            self._prepared(key, prepare)
        except Exception as error:  # noqa: BLE001 - `find` raises it
            self._failures[key] = error

    def _prepared(self, key: Hashable, prepare: Callable[[], T]) -> T:
        old: _Prepared[T] | None = self._cache.peek(key)
        if old is not None:
            self._cache.forget(key)

        def make() -> _Prepared[T]:
            try:
                return _Prepared(prepare(), self._now_s() + (self._ttl_s or 0))
            except RegistryUnreachable:
                if old is None:
                    raise
                return _Prepared(old.thing, self._now_s() + (self._ttl_s or 0))

        return self._cache.get(key, make).thing
