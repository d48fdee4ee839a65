"""What a dead letter says of itself: where it is from, and why it failed.

Who writes dead letters adds headers. Kafka Connect, Kafka Streams (KIP-1034), the schema validation
of Odradek's brokers and Spring each have names of their own for the same three things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Headers = Sequence[tuple[str, bytes | None]]

REDRIVEN: Final = "odradek.redriven"
"""Counts how often a record has come back, as `odradek connect dlq redrive` does."""
_PREFIXES: Final = (
    "__connect.errors.",
    "__odradek.errors.",
    "__streams.errors.",
    "kafka_dlt-",
)
_TOPIC: Final = ("topic", "original-topic")
_PARTITION: Final = ("partition", "original-partition")
_REASONS: Final = ("exception.message", "reason", "message", "exception-message", "exception")
_BINARY_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`topic` is where it is from; None if it does not say. `redriven` is how often it has come
    back before, and `headers` are those that it had in its topic."""

    topic: str | None
    partition: int | None
    reason: str
    redriven: int
    headers: list[tuple[str, bytes | None]]

    def headers_again(self) -> list[tuple[str, bytes | None]]:
        """Returns the headers with which it goes back."""
        return [*self.headers, (REDRIVEN, str(self.redriven + 1).encode())]


def dead_letter(headers: Headers) -> DeadLetter:
    said: dict[str, bytes] = {}
    own: list[tuple[str, bytes | None]] = []
    redriven = 0
    for name, value in headers:
        prefix = next((one for one in _PREFIXES if name.startswith(one)), "")
        if prefix:
            said[name.removeprefix(prefix)] = value or b""
        elif name == REDRIVEN:
            redriven = _number(value or b"") or 0
        else:
            own.append((name, value))
    topic = _first(said, _TOPIC).decode(errors="replace") or None
    reason = _first(said, _REASONS).decode(errors="replace")
    return DeadLetter(topic, _partition(_first(said, _PARTITION)), reason, redriven, own)


def _first(said: Mapping[str, bytes], names: Sequence[str]) -> bytes:
    return next((said[name] for name in names if said.get(name)), b"")


def _partition(content: bytes) -> int | None:
    """Returns the number: all write it as text but Spring, which has four bytes."""
    number = _number(content)
    if number is not None or len(content) != _BINARY_BYTES:
        return number
    return int.from_bytes(content, "big")


def _number(content: bytes) -> int | None:
    return int(content) if content.isdigit() and len(content) < 10 else None
