"""Ways to make a frame wrong. A frame is its size and its bytes; most ways keep the size right."""

import struct
from random import Random

INTERESTING = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]
INTERESTING += [b"\x7f\xff", b"\x80\x00", b"\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"]
INTERESTING += [b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 8]


def with_size(body: bytes | bytearray) -> bytes:
    return struct.pack(">i", len(body)) + body


def mutate(random: Random, frame: bytes, other: bytes) -> bytes:
    """The frame with one to four changes; its size is right again afterwards."""
    body = bytearray(frame[4:])
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        if not body:
            break
        random.choice(CHANGES)(random, body, other)
    return with_size(body)


def _position(random: Random, body: bytearray) -> int:
    # The header is where most requests would end: go behind it more often than not.
    first = min(10, len(body) - 1) if random.random() < 0.8 else 0
    return random.randrange(first, len(body))


def _set_byte(random: Random, body: bytearray, other: bytes) -> None:
    body[_position(random, body)] = random.randrange(256)


def _flip_bit(random: Random, body: bytearray, other: bytes) -> None:
    body[_position(random, body)] ^= 1 << random.randrange(8)


def _set_interesting(random: Random, body: bytearray, other: bytes) -> None:
    position, value = _position(random, body), random.choice(INTERESTING)
    body[position : position + len(value)] = value


def _truncate(random: Random, body: bytearray, other: bytes) -> None:
    del body[_position(random, body) :]


def _remove(random: Random, body: bytearray, other: bytes) -> None:
    position = _position(random, body)
    del body[position : position + random.randrange(1, 9)]


def _insert(random: Random, body: bytearray, other: bytes) -> None:
    position = _position(random, body)
    body[position:position] = random.randbytes(random.randrange(1, 9))


def _repeat(random: Random, body: bytearray, other: bytes) -> None:
    position = _position(random, body)
    piece = bytes(body[position : position + random.randrange(1, 40)])
    body[position:position] = piece * random.choice([1, 2, 50])


def _splice(random: Random, body: bytearray, other: bytes) -> None:
    body[_position(random, body) :] = other[random.randrange(len(other)) :]


def _extend(random: Random, body: bytearray, other: bytes) -> None:
    body += random.randbytes(random.randrange(1, 30))


CHANGES = [
    _set_byte,
    _set_byte,
    _flip_bit,
    _flip_bit,
    _set_interesting,
    _set_interesting,
    _truncate,
    _remove,
    _insert,
    _repeat,
    _splice,
    _extend,
]
