"""Checks what a program gives to a call of a client, where the call begins.

Without a type checker, a wrong argument would fail deep inside the client or mean something else: a
name is also a list of letters. Each function here returns the argument in the form that the client
works with, or raises `TypeError` with one line: what the call needs, what was given, and what to
write. Forms of other clients whose meaning is clear are taken as well: one thing in place of a list
of one, and a pair in place of a `TopicPartition`.
"""

import logging
from collections.abc import Iterable, Mapping
from operator import index
from reprlib import Repr
from typing import Any, Final, SupportsIndex, TypeGuard, TypeVar

from odradek.protocol.types import TopicPartition

K = TypeVar("K")
T = TypeVar("T")

Kind = type[T] | tuple[type[T], ...]
GivenPartition = TopicPartition | tuple[str, int]
GivenPartitions = GivenPartition | Iterable[GivenPartition]
GivenNames = str | Iterable[str]

MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
# Seconds since 1970 of the years 2001 to 2286: as milliseconds they are in January to April 1970.
_FIRST_SECONDS: Final = 10**9
FIRST_MILLISECONDS: Final = 10**10
_warned_of_seconds: set[str] = set()
_log = logging.getLogger("odradek.client")
_short = Repr()
_short.maxstring = _short.maxother = 60


def wrong(call: str, needed: str, given: object, line: str = "") -> TypeError:
    """Returns the error of an argument that the call cannot use; `line` is what to write."""
    write = f": write {line}" if line else ""
    return TypeError(f"{call} needs {needed}, not {_short.repr(given)}{write}")


def one_of(kind: Kind[T], given: object, call: str, needed: str, line: str = "") -> T:
    """Returns a thing of a class."""
    if isinstance(given, kind):
        return given
    raise wrong(call, needed, given, line)


def several(
    kind: Kind[T], given: T | Iterable[T], call: str, needed: str, line: str = ""
) -> list[T]:
    """Returns things of one class as a list; a single one is a list of one."""
    if isinstance(given, kind):
        return [given]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong(call, needed, given, line)
    return [one_of(kind, item, call, needed, line) for item in given]


def names(given: GivenNames, call: str, what: str = "topics") -> list[str]:
    """Returns names of topics, or of what else `what` says."""
    return several(str, given, call, f"names of {what} as text", f'["{what.removesuffix("s")}"]')


def a_name(given: object, call: str, what: str = "topic") -> str:
    """Returns the name of one topic, or of what else `what` says."""
    line = repr(given.decode(errors="replace")) if isinstance(given, bytes) else f'"{what}"'
    return one_of(str, given, call, f"the name of a {what} as text", line)


def a_key(given: object, call: str) -> bytes | str:
    """Returns the key of a record."""
    if isinstance(given, str):
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    line = f"b'{given}'" if isinstance(given, int) else ""
    raise wrong(call, "a key as bytes or text", given, line)


def keys(given: object, call: str) -> list[bytes | str]:
    """Returns keys of records as a list; a single one is a list of one."""
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        return [a_key(given, call)]
    return [a_key(item, call) for item in given]


def integer(
    given: object, call: str, name: str, *, at_least: int | None = None, at_most: int = _MAX_LONG
) -> int:
    """Returns the integer that the parameter `name` has; a larger one cannot be sent."""
    try:
        number = index(given)  # type: ignore[arg-type] # that is what is checked
    except TypeError:
        line = f"{name}={given}" if isinstance(given, str) and given.isdecimal() else ""
        raise wrong(call, f"{name} as an integer", given, line) from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{call}: {name}={number} must be at least {at_least}")
    if number > at_most:
        raise ValueError(f"{call}: {name}={number} must be at most {at_most}")
    return number


def milliseconds(given: object, call: str, name: str = "timeout_ms") -> int:
    """Returns a time; other clients count seconds, of which a part can be given."""
    if isinstance(given, float):
        raise TypeError(
            f"{call} counts milliseconds: write {name}={int(given * 1000)} for {given} s"
        )
    return integer(given, call, name)


def timeout(given: object, call: str) -> int:
    """Returns how long a call may wait."""
    number = milliseconds(given, call)
    if number < 0:
        raise ValueError(
            f"{call}: timeout_ms={number}: a time to wait cannot be negative; leave it out"
        )
    return number


def offset(given: object, call: str) -> int:
    number = integer(given, call, "offset")
    if number < 0:
        raise ValueError(f"{call}: offset={number}: an offset cannot be negative")
    return number


def timestamp(given: object, call: str, *, at_most: int = _MAX_LONG) -> int:
    """Returns a time in milliseconds since 1970; `time.time()` counts seconds, in parts of one."""
    name = "timestamp_ms"
    if isinstance(given, float):
        raise wrong(call, f"{name} as an integer", given, f"{name}=int(time.time() * 1000)")
    if callable(getattr(given, "timestamp", None)):  # a datetime
        line = f"{name}=int(moment.timestamp() * 1000)"
        raise wrong(call, f"{name} as an integer", given, line)
    number = integer(given, call, name, at_most=at_most)
    if number < 0:
        raise ValueError(f"{call}: {name}={number}: a time cannot be before 1970")
    if _FIRST_SECONDS <= number < FIRST_MILLISECONDS and call not in _warned_of_seconds:
        # Not an error: a record may have such a time already, and be copied with it.
        _warned_of_seconds.add(call)
        _log.warning(
            "%s: timestamp_ms=%d is in 1970; are these seconds? Milliseconds are"
            " int(time.time() * 1000)",
            call,
            number,
        )
    return number


def broker_ids(given: int | Iterable[int], call: str) -> list[int]:
    """Returns ids of brokers as a list; a single one is a list of one."""
    return several(int, given, call, "ids of brokers", "[1, 2]")


def setting_text(given: object, call: str, name: str) -> str | None:
    """Returns the value of a broker's or topic's setting as text, as the protocol has it."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return str(given)
    line = f'"{",".join(map(str, given))}"' if isinstance(given, list | tuple) else ""
    raise wrong(call, f"the value of {name} as text or a number", given, line)


def partition(given: object, call: str, or_else: str = "") -> TopicPartition:
    """Returns the partition that a `TopicPartition` or a pair names."""
    if _is_pair(given):
        topic, number = given
        if isinstance(number, int | SupportsIndex):  # numpy's integers too
            return TopicPartition(topic, integer(number, call, "partition", at_most=MAX_INT))
        if isinstance(number, str) and number.isdecimal():
            raise wrong(call, "a partition", given, f"TopicPartition({topic!r}, {number})")
    raise wrong(call, "a partition", given, f"{_example(given)}{or_else}")


def partitions(given: GivenPartitions, call: str, or_else: str = "") -> list[TopicPartition]:
    """Returns partitions as a list; a single one is a list of one.

    `or_else` ends the message: it says what else may have been meant.
    """
    value: object = given
    if _is_pair(value):
        return [partition(value, call, or_else)]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong(call, "partitions", given, f"[{_example(given)}]{or_else}")
    return [partition(item, call, or_else) for item in value]


def mapping(given: Mapping[K, T], call: str, line: str) -> Mapping[K, T]:
    """Returns a mapping; `line` is how one is written."""
    if not isinstance(given, Mapping):
        raise wrong(call, "a dict", given, line)
    return given


def by_partition(given: Mapping[Any, T], call: str, value: str) -> dict[TopicPartition, T]:
    """Returns a mapping from partitions; `value` is how its values are written."""
    line = f"{{TopicPartition('topic', 0): {value}}}"
    return {partition(key, call): item for key, item in mapping(given, call, line).items()}


def _is_pair(given: object) -> TypeGuard[tuple[str, Any]]:
    """Returns whether something names one partition; a pair of partitions does not."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)


def _example(given: object) -> str:
    topic = given if isinstance(given, str) else "topic"
    return f"TopicPartition({topic!r}, 0)"
