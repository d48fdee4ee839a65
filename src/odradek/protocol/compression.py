"""Compression of the records inside a batch: gzip, snappy, lz4 and zstd.

The compressors are native code from `cramjam`, imported on first use. Nothing a peer sends
can make `decompress` produce, or hold, more than the caller's `max_bytes`: output goes into
a buffer that starts near the size the data suggests and grows to that limit at most.
"""

import struct
import zlib
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

from odradek.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Buffer = bytes | bytearray | memoryview

DEFAULT_MAX_BYTES = 256 * 1024 * 1024


class Codec(IntEnum):
    """Kafka's number of each codec, as in the lowest three attribute bits of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class MalformedCompression(MalformedMessage):
    """The compressed bytes are damaged."""


class DecompressedTooLarge(MalformedCompression):
    """The data would grow beyond the limit its reader set."""


# What Java's client uses when it is told nothing else.
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3

# The stream that snappy-java writes: a magic, two versions, then raw blocks of this many
# bytes before compression, each behind its length.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_UINT32 = struct.Struct(">I")


@cache
def _native() -> "ModuleType":
    # Most brokers never look inside a batch, so they never load the compressors.
    import cramjam  # noqa: PLC0415

    return cramjam


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compresses as the Java client does, so that every client can read it."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        compressor = zlib.compressobj(_GZIP_LEVEL if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    cramjam = _native()
    if codec == Codec.LZ4:
        return bytes(cramjam.lz4.compress(data, level=level))
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """The original bytes; `DecompressedTooLarge` before more than `max_bytes` are held."""
    if codec == Codec.NONE:
        if len(data) > max_bytes:
            raise _too_large(max_bytes)
        return bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    cramjam = _native()
    native = cramjam.lz4 if codec == Codec.LZ4 else cramjam.zstd
    return _decompress_growing(native.decompress_into, codec, data, max_bytes)


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    decompressor = zlib.decompressobj(31)
    try:
        result = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise MalformedCompression(f"damaged gzip data: {error}") from None
    if len(result) > max_bytes:
        raise _too_large(max_bytes)
    if not decompressor.eof:
        raise MalformedCompression("truncated gzip data")
    return result


def _compress_xerial(data: Buffer) -> bytes:
    cramjam = _native()
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_UINT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    position, end = len(_XERIAL_HEADER), len(view)
    parts: list[bytes] = []
    room = max_bytes
    while position < end:
        if end - position < 4:
            raise MalformedCompression("truncated snappy data")
        (length,) = _UINT32.unpack_from(view, position)
        position += 4
        if length > end - position:
            raise MalformedCompression("truncated snappy data")
        block = _decompress_snappy_block(view[position : position + length], room)
        parts.append(block)
        room -= len(block)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    cramjam = _native()
    try:
        # The block begins with its length, which nothing has checked yet.
        size = cramjam.snappy.decompress_raw_len(block)
        if size > max_bytes:
            raise _too_large(max_bytes)
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise MalformedCompression(f"damaged snappy data: {error}") from None
    return bytes(output[:written])


def _decompress_growing(
    decompress_into: "Callable[[Buffer, bytearray], int]",
    codec: Codec,
    data: Buffer,
    max_bytes: int,
) -> bytes:
    cramjam = _native()
    capacity = min(max_bytes, max(64 * 1024, 6 * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise MalformedCompression(f"damaged {codec.name.lower()} data: {error}") from None
        else:
            return bytes(memoryview(output)[:written])
        if capacity == max_bytes:
            raise _too_large(max_bytes)
        capacity = min(max_bytes, capacity * 4)


def _too_large(max_bytes: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the data decompresses to more than {max_bytes} bytes")
