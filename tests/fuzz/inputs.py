"""Which input comes next. A seed and a number name an input, whatever came before it."""

import struct
from random import Random
from typing import NamedTuple

from odradek.protocol.messages.produce import ProduceRequest
from tests.fuzz.batches import hostile_batch
from tests.fuzz.mutation import mutate, with_size
from tests.fuzz.requests import RequestMaker, Surroundings


class Input(NamedTuple):
    kind: str
    data: bytes
    is_framed: bool
    """Whether the size at its beginning is the size of the rest."""

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.data[4:6], "big", signed=True)

    @property
    def api_version(self) -> int:
        return int.from_bytes(self.data[6:8], "big", signed=True)

    @property
    def correlation_id(self) -> int | None:
        if len(self.data) < 12:
            return None
        return int.from_bytes(self.data[8:12], "big", signed=True)


class InputSource:
    def __init__(self, seed: int, surroundings: Surroundings) -> None:
        self._seed = seed
        self._surroundings = surroundings

    def input(self, number: int) -> Input:
        random = Random(f"{self._seed} {number}")
        maker = RequestMaker(random, self._surroundings)
        kind = random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        data = KINDS[kind][1](random, maker)
        (size,) = struct.unpack(">i", data[:4]) if len(data) >= 4 else (-1,)
        return Input(kind, data, size == len(data) - 4)


def _valid(random: Random, maker: RequestMaker) -> bytes:
    return maker.frame()


def _extreme(random: Random, maker: RequestMaker) -> bytes:
    maker.is_extreme = True
    return maker.frame()


def _mutated(random: Random, maker: RequestMaker) -> bytes:
    return mutate(random, maker.frame(), maker.frame())


def _hostile_produce(random: Random, maker: RequestMaker) -> bytes:
    maker.records = hostile_batch(random)
    return maker.frame(ProduceRequest.api_key)


def _noise(random: Random, maker: RequestMaker) -> bytes:
    return with_size(random.randbytes(random.choice([0, 1, 3, 8, 14, 100, 2000])))


def _unknown(random: Random, maker: RequestMaker) -> bytes:
    """An API or a version that nobody serves."""
    key = random.choice([-1, 4, 5, 6, 7, 18, 18, 99, 1000, 32767, random.randrange(100)])
    version = random.choice([-1, 0, 1, 99, 32767])
    body = struct.pack(">hhih", key, version, random.randrange(1 << 31), 4) + b"fuzz"
    return with_size(body + random.randbytes(random.choice([0, 1, 20])))


def _wrong_size(random: Random, maker: RequestMaker) -> bytes:
    frame = maker.frame()
    size = random.choice(
        [-1, 0, 1, 7, 50_000_000, 99_999_999, 200_000_000, (1 << 31) - 1, -(1 << 31), len(frame)]
    )
    return struct.pack(">i", size) + frame[4:]


def _torn(random: Random, maker: RequestMaker) -> bytes:
    """A frame of which the rest never comes."""
    frame = maker.frame()
    return frame[: random.randrange(1, len(frame))]


KINDS = {
    "valid": (12, _valid),
    "extreme": (12, _extreme),
    "mutated": (50, _mutated),
    "hostile produce": (12, _hostile_produce),
    "noise": (4, _noise),
    "unknown": (4, _unknown),
    "wrong size": (4, _wrong_size),
    "torn": (2, _torn),
}
