"""What an admin call about several resources returns: a dict that says if its errors go unread.

    answers = await admin.create_topics(["clicks", "orders"])
    answers["clicks"]                  # its description, or its KafkaError
    answers.raise_for_errors()         # raises if any of them failed

One error must not hide the other answers, so such a call returns errors instead of raising them. A
program that ignores the answer would not notice a failure. Therefore an error that nobody looked
at is logged when the answer is dropped, as asyncio does for the exception of a future.
"""

import logging
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, Self, TypeVar, overload

from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode, KafkaError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_log = logging.getLogger("odradek.client")
_ERRORS: Final = (KafkaError, ClientError)
# What was asked for is so already.
_HARMLESS: Final = frozenset({ErrorCode.ELECTION_NOT_NEEDED})


class Results(dict[K, V]):
    """The answers of one call, by resource. An answer that is an error is an exception object.

    Names alone (`for name in answers`, `len`, `in`) are not a look at the answers; everything that
    returns or compares values is.
    """

    __slots__ = ("_call", "_unread")

    def __init__(self, call: str, answers: Mapping[K, V]) -> None:
        super().__init__(answers)
        self._call = call
        self._unread = {
            resource: answer for resource, answer in answers.items() if _is_failure(answer)
        }

    def raise_for_errors(self) -> Self:
        """Raises the first error, if there is one; the others are notes of it."""
        errors = {name: answer for name, answer in super().items() if _is_failure(answer)}
        self._unread = {}
        if not errors:
            return self
        (name, error), *others = errors.items()
        assert isinstance(error, BaseException)
        error.add_note(f"{self._call} failed for {_shown(name)}")
        for other, reason in others:
            error.add_note(f"{self._call} failed for {_shown(other)} too: {reason}")
        raise error

    # Every way to a value

    def __getitem__(self, resource: K) -> V:
        self._unread.pop(resource, None)
        return super().__getitem__(resource)

    @overload
    def get(self, resource: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, resource: K, default: V, /) -> V: ...
    @overload
    def get(self, resource: K, default: T, /) -> V | T: ...
    def get(self, resource: K, default: Any = None, /) -> Any:
        self._unread.pop(resource, None)
        return super().get(resource, default)

    def __iter__(self) -> Iterator[K]:
        """Returns the resources. Without it, `dict(answers)` would not call `__getitem__`."""
        return super().__iter__()

    def values(self) -> ValuesView[V]:  # type: ignore[override]  # dict has a class of its own
        self._unread = {}
        return super().values()

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]  # dict has a class of its own
        self._unread = {}
        return super().items()

    def pop(self, resource: K, *default: Any) -> Any:
        self._unread.pop(resource, None)
        return super().pop(resource, *default)

    def __eq__(self, other: object) -> bool:
        self._unread = {}
        return super().__eq__(other)

    __hash__ = None  # as of every dict

    def __repr__(self) -> str:
        self._unread = {}
        return super().__repr__()

    def __del__(self) -> None:
        for resource, error in getattr(self, "_unread", {}).items():
            _log.warning(
                "%s failed for %s: %s; nobody looked at the answer: write"
                " .raise_for_errors() after the call, or look at answers[%r]",
                self._call,
                _shown(resource),
                error,
                _shown(resource),
            )


def _is_failure(answer: object) -> bool:
    return isinstance(answer, _ERRORS) and getattr(answer, "code", None) not in _HARMLESS


def _shown(resource: object) -> str:
    """Returns a resource as users name it."""
    name = getattr(resource, "name", None)
    return str(resource if name is None else name)
