"""Answers that are asked for once, by any number of threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class AnswerCache:
    """The newest answers, at most `capacity`. Threads that miss the same one wait for one call."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(capacity, 1)
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._asked: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def peek(self, key: Hashable) -> Any:
        """Returns what is known, or None, without a lock: a dict is looked up in one step."""
        return self._known.get(key)

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                known: T = self._known[key]
                return known
            pending = self._asked.get(key)
            if pending is None:
                mine = self._asked[key] = Future()
        if pending is not None:
            shared: T = pending.result()
            return shared
        try:
            answer = ask()
        except BaseException as error:
            with self._lock:
                self._asked.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._asked.pop(key, None)
            self._known[key] = answer
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        mine.set_result(answer)
        return answer

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._known.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
