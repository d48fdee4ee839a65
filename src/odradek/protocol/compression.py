"""Compression of the records inside a batch: gzip, snappy, lz4 and zstd.

`compress` writes what the Java client writes, so that every client can read it, old ones too.
`decompress` reads what any client writes and is safe against decompression bombs: its buffer starts
near the size that the data suggest, grows to the caller's `max_bytes` at most, and becomes the
result without a copy. `docs/decisions/0003-compression.md` has figures.

The compressors are native code from `cramjam`, loaded when a batch is first decompressed; a broker
whose topics keep the producer's codec never does.
"""

import struct
import zlib
from enum import IntEnum
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

from odradek.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Buffer = bytes | bytearray | memoryview

DEFAULT_MAX_BYTES = 256 * 1024 * 1024

# Kafka's default levels. Of lz4's two compressors Java uses the fast one at exactly this level,
# and the thorough one at every other.
_GZIP_LEVEL = 6
_LZ4_FAST_LEVEL = 9
_ZSTD_LEVEL = 3

_FIRST_CAPACITY_BYTES = 64 * 1024
_EXPECTED_RATIO = 6
_GROWTH = 8

# The stream that snappy-java writes: a magic, two versions, then raw blocks, each after
# its length. A block has at most this many bytes before compression.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
# A copy of 64 bytes takes at least 3 bytes in a snappy block.
_SNAPPY_MOST_RATIO = 24
_UINT32 = struct.Struct(">I")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HAS_CONTENT_SIZE = 0x08
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


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
    """The decompressed data would exceed the limit of the reader."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the data decompress to more than {max_bytes} bytes")


@cache
def _native() -> "ModuleType":
    import cramjam  # noqa: PLC0415

    return cramjam


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compresses as the Java client does at the same level (snappy knows no levels)."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        compressor = zlib.compressobj(_GZIP_LEVEL if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        return _compress_lz4(data, level)
    return bytes(_native().zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Returns the original bytes; raises `DecompressedTooLarge` before it holds more than
    `max_bytes`."""
    if codec == Codec.NONE:
        if len(data) > max_bytes:
            raise DecompressedTooLarge(max_bytes)
        return bytes(data)
    native = _native()
    if codec == Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == Codec.GZIP:
        return _decompress_growing(native.gzip.decompress_into, codec, data, None, max_bytes)
    if codec == Codec.LZ4:
        size = _lz4_content_size(data)
        return _decompress_growing(native.lz4.decompress_into, codec, data, size, max_bytes)
    size = _zstd_content_size(data)
    return _decompress_growing(native.zstd.decompress_into, codec, data, size, max_bytes)


def _decompress_growing(
    decompress_into: "Callable[[Buffer, memoryview], int]",
    codec: Codec,
    data: Buffer,
    declared_size: int | None,
    max_bytes: int,
) -> bytes:
    if declared_size is not None and declared_size > max_bytes:
        raise DecompressedTooLarge(max_bytes)
    capacity = max(_FIRST_CAPACITY_BYTES, _EXPECTED_RATIO * len(data))
    if declared_size is not None and declared_size <= capacity * _GROWTH:
        # A larger claimed size is not allocated before the data have really grown so much.
        capacity = declared_size
    capacity = min(capacity, max_bytes)
    while True:
        # A BytesIO gives its bytes away without a copy, cut to length; and fresh bytes are
        # pages the system fills in only where they are written.
        output = BytesIO(bytes(capacity))
        try:
            with output.getbuffer() as view:
                written = decompress_into(data, view)
        except _native().DecompressionError as error:
            reason = str(error)
        else:
            output.truncate(written)
            return output.getvalue()
        if capacity == max_bytes:
            if "write whole buffer" in reason:
                raise DecompressedTooLarge(max_bytes)
            raise MalformedCompression(f"damaged {codec.name.lower()} data: {reason}")
        # Whether the data are damaged or the room was too small is told apart by the text of
        # the error alone, which is not worth relying on.
        del output
        capacity = min(max_bytes, max(_FIRST_CAPACITY_BYTES, capacity) * _GROWTH)


# lz4: the frame format, with the blocks independent of each other, as Kafka demands. Java
# writes no checksums for blocks, but checks them where they are, as here.


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    is_fast = level is None or level == _LZ4_FAST_LEVEL
    compressor = _native().lz4.Compressor(
        level=0 if is_fast else min(max(level or 0, 3), 12),
        content_checksum=False,
        block_linked=False,
    )
    compressor.compress(data if isinstance(data, bytes) else bytes(data))
    return bytes(compressor.finish())


def _lz4_content_size(data: Buffer) -> int | None:
    if len(data) < 14 or data[:4] != _LZ4_MAGIC or not data[4] & _LZ4_HAS_CONTENT_SIZE:
        return None
    return int.from_bytes(data[6:14], "little")


# zstd


def _zstd_content_size(data: Buffer) -> int | None:
    """The size of its first frame's content, if the frame tells."""
    if len(data) < 5 or data[:4] != _ZSTD_MAGIC:
        return None
    descriptor = data[4]
    is_single_segment = bool(descriptor & 0x20)
    width = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    if not width:
        return None
    dictionary_width = (0, 1, 2, 4)[descriptor & 3]
    position = 5 + (0 if is_single_segment else 1) + dictionary_width
    size = int.from_bytes(data[position : position + width], "little")
    return size + 256 if width == 2 else size


# snappy: raw blocks, which begin with their length, alone or in snappy-java's stream


def _compress_xerial(data: Buffer) -> bytes:
    compress_raw = _native().snappy.compress_raw
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_UINT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    blocks = _split_xerial(data) if data[:8] == _XERIAL_MAGIC else [data]
    sizes = [_snappy_size(block) for block in blocks]
    total = sum(sizes)
    if total > max_bytes:
        raise DecompressedTooLarge(max_bytes)
    output = BytesIO(bytes(total))
    decompress_into = _native().snappy.decompress_raw_into
    position = 0
    with output.getbuffer() as view:
        for block, size in zip(blocks, sizes, strict=True):
            if not size:
                continue
            try:
                with view[position : position + size] as room:
                    written = decompress_into(block, room)
            except _native().DecompressionError as error:
                raise MalformedCompression(f"damaged snappy data: {error}") from None
            if written != size:
                raise MalformedCompression("damaged snappy data: a block of the wrong length")
            position += size
    return output.getvalue()


def _split_xerial(data: memoryview) -> list[memoryview]:
    blocks = []
    position, end = len(_XERIAL_HEADER), len(data)
    while position < end:
        if data[position : position + 8] == _XERIAL_MAGIC:  # streams may be concatenated
            position += len(_XERIAL_HEADER)
            continue
        if end - position < 4:
            raise MalformedCompression("truncated snappy data")
        (length,) = _UINT32.unpack_from(data, position)
        position += 4
        if length > end - position:
            raise MalformedCompression("truncated snappy data")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _snappy_size(block: memoryview) -> int:
    try:
        size = int(_native().snappy.decompress_raw_len(block))
    except _native().DecompressionError as error:
        raise MalformedCompression(f"damaged snappy data: {error}") from None
    if size > _SNAPPY_MOST_RATIO * len(block):
        raise MalformedCompression("damaged snappy data: a block claims an impossible length")
    return size
