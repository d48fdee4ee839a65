"""Record batches no client would send: wrong inside, but with a right checksum.

A wrong checksum is refused before anything is looked at, so each batch here has a right one
wherever a broker could have cause to open it.
"""

import struct
from functools import cache
from random import Random

from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec, compress
from odradek.protocol.records import HEADER_SIZE, BatchBuilder
from odradek.protocol.varint import encode_varint

MEBIBYTE = 1 << 20
HEADER = struct.Struct(">qiibIhiqqqhii")
# Attributes to record count: what may be changed while the batch still looks whole.
FIELDS = [
    (21, ">h"),
    (23, ">i"),
    (27, ">q"),
    (35, ">q"),
    (43, ">q"),
    (51, ">h"),
    (53, ">i"),
    (57, ">i"),
]


def with_checksum(batch: bytearray) -> bytes:
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def ordinary_batch(random: Random) -> bytes:
    builder = BatchBuilder(random.choice(list(Codec)))
    for _ in range(random.choice([1, 1, 2, 5])):
        builder.append(
            random.choice([None, b"", b"key"]),
            random.choice([None, b"", b"value", b"value " * 30]),
            random.choice([(), (), [("h", b"x")]]),
            random.choice([0, 1_700_000_000_000, -1]),
        )
    return builder.build()


def hostile_batch(random: Random) -> bytes:
    kinds = [
        _changed_header,
        _changed_records,
        _cut_short,
        _bomb,
        _lying_count,
        _old_format,
        _noise_behind_header,
        _joined,
    ]
    return random.choice(kinds)(random)


def _changed_header(random: Random) -> bytes:
    batch = bytearray(ordinary_batch(random))
    for _ in range(random.choice([1, 1, 2])):
        position, form = random.choice(FIELDS)
        size = struct.calcsize(form)
        limit = 1 << (8 * size - 1)
        number = random.choice([0, 1, -1, limit - 1, -limit, random.randrange(-limit, limit)])
        struct.pack_into(form, batch, position, number)
    return with_checksum(batch)


def _changed_records(random: Random) -> bytes:
    batch = bytearray(ordinary_batch(random))
    for _ in range(random.choice([1, 2, 5])):
        position = random.randrange(HEADER_SIZE, len(batch))
        batch[position] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
    return with_checksum(batch)


def _cut_short(random: Random) -> bytes:
    batch = bytearray(ordinary_batch(random))
    del batch[random.randrange(len(batch)) :]
    if random.random() < 0.5 and len(batch) > HEADER_SIZE:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        return with_checksum(batch)
    return bytes(batch)


@cache
def _bombs() -> list[tuple[Codec, bytes]]:
    zeros = bytes(48 * MEBIBYTE)
    bombs = [(codec, compress(codec, zeros)) for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD)]
    # Frames follow each other: 1.5 GiB in 48 kilobytes.
    bombs.append((Codec.ZSTD, compress(Codec.ZSTD, zeros) * 32))
    # A hundred thousand records of the least size, each in its place.
    records = bytearray()
    for number in range(100_000):
        body = b"\x00\x00" + encode_varint(number) + b"\x01\x01\x00"
        records += encode_varint(len(body)) + body
    bombs.append((Codec.GZIP, compress(Codec.GZIP, records)))
    bombs.append((Codec.ZSTD, compress(Codec.ZSTD, records)))
    # Claims of four gigabytes in ten bytes.
    bombs.append((Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\xfe" * 8))
    bombs.append((Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\x00\x00"))
    return bombs


def _bomb(random: Random) -> bytes:
    """Small on the wire, large inside; now and then only, for some are half a megabyte long."""
    if random.random() < 0.8:
        return _lying_count(random)
    codec, payload = random.choice(_bombs())
    count = random.choice([1, 100_000, 100_000, 7_000_000])
    return _batch(codec, payload, count)


def _lying_count(random: Random) -> bytes:
    count = random.choice([0, -1, 2, 1 << 20, (1 << 31) - 1])
    return _batch(Codec.NONE, b"\x0c\x00\x00\x00\x01\x01\x00", count)


def _batch(codec: Codec, payload: bytes, count: int) -> bytes:
    length = HEADER_SIZE - 12 + len(payload)
    fields = (0, length, -1, 2, 0, codec, max(0, count - 1), 0, 0, -1, -1, -1, count)
    return with_checksum(bytearray(HEADER.pack(*fields) + payload))


def _old_format(random: Random) -> bytes:
    magic = random.choice([0, 1, 3, 127])
    return struct.pack(">qiIbb", 0, 14, 0, magic, random.randrange(8)) + bytes(8)


def _noise_behind_header(random: Random) -> bytes:
    payload = random.randbytes(random.randrange(200))
    return _batch(random.choice(list(Codec)), payload, random.choice([1, 2, 50]))


def _joined(random: Random) -> bytes:
    return ordinary_batch(random) + hostile_batch(random)
