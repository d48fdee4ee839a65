"""Functions that `odradek.storage` calls when something happens to a log or to its directory.

The packages above storage subscribe when they are constructed:
`logs.on_start_moved.add(self._start_moved)`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Subscribers(Generic[T]):
    """Calls every subscriber at once, in the order of subscription. None may raise or wait."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: list[Callable[[T], object]] = []

    def add(self, subscriber: Callable[[T], object]) -> None:
        self._subscribers.append(subscriber)

    def notify(self, subject: T) -> None:
        for subscriber in self._subscribers:
            subscriber(subject)
