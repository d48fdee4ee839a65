"""Types for numbers of the protocol, so that the type checker keeps them apart.

They cost nothing at run time.
"""

from collections.abc import Sized
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

Buffer = bytes | bytearray | memoryview

Part = Buffer | Sized
"""A part of an encoded message: bytes, or records that the connection writes later and of
which only the length matters here."""

if TYPE_CHECKING:

    class Offset(int):
        """A record's position in the log of its partition.

        Type checkers see a class, because an offset plus a number of records is an offset again;
        with a plain `NewType` every sum would have to be wrapped, which costs a call at run time.
        """

        def __new__(cls, value: int, /) -> "Offset": ...

        def __add__(self, other: int, /) -> "Offset": ...
else:
    Offset = NewType("Offset", int)

LeaderEpoch = NewType("LeaderEpoch", int)
"""How often a partition has changed its leader."""

ProducerId = NewType("ProducerId", int)
"""Names an idempotent producer in record batches; -1 is none."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""Tells a producer from its predecessors with the same id; -1 is none."""

BrokerId = NewType("BrokerId", int)
"""A broker's number in its cluster; -1 is none."""

TopicId = NewType("TopicId", bytes)
"""The sixteen bytes of a topic's UUID, which a topic of the same name made later does not share."""

NO_TOPIC_ID: Final = TopicId(bytes(16))

FIRST_OFFSET: Final = Offset(0)
"""Where the log of a new partition begins."""

NO_OFFSET: Final = Offset(-1)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
