"""Every codec reads what others write, writes what others read, and cannot be fooled."""

import contextlib
import gzip
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.compression import (
    Codec,
    DecompressedTooLarge,
    MalformedCompression,
    compress,
    decompress,
)

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b'{"id":%d,"name":"customer %d"}' % (number, number % 97) for number in range(9000))
MEBIBYTE = 1 << 20


def contents() -> st.SearchStrategy[bytes]:
    repeated = st.builds(
        lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 5000)
    )
    return st.one_of(st.binary(max_size=2000), repeated)


@settings(deadline=None)
@given(st.sampled_from(Codec), contents())
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("level", [1, 3, 6, 9])
def test_levels_are_accepted(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_any_kind_of_buffer_is_taken(codec: Codec) -> None:
    compressed = compress(codec, memoryview(bytearray(TEXT)))
    for buffer in (compressed, bytearray(compressed), memoryview(compressed)):
        assert decompress(codec, buffer, len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, compressed, len(TEXT) - 1)


def test_uncompressed_bytes_have_a_limit_too() -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.NONE, b"four", 3)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_that_grow_a_thousandfold_come_back(codec: Codec) -> None:
    zeros = bytes(20 * MEBIBYTE)
    assert decompress(codec, compress(codec, zeros), 32 * MEBIBYTE) == zeros


@settings(deadline=None)
@given(st.sampled_from(COMPRESSED), st.binary(max_size=300))
def test_noise_is_malformed_or_data(codec: Codec, noise: bytes) -> None:
    with contextlib.suppress(MalformedCompression):
        assert len(decompress(codec, noise, MEBIBYTE)) <= MEBIBYTE


@settings(deadline=None)
@given(st.sampled_from(COMPRESSED), st.integers(0, 10_000), st.integers(1, 255))
def test_damage_is_malformed_or_data(codec: Codec, where: int, difference: int) -> None:
    damaged = bytearray(compress(codec, TEXT[:5000]))
    damaged[where % len(damaged)] ^= difference
    with contextlib.suppress(MalformedCompression):
        assert len(decompress(codec, damaged, MEBIBYTE)) <= MEBIBYTE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_cut_end_is_noticed(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    for cut in (1, 5, len(compressed) // 2):
        with pytest.raises(MalformedCompression):
            decompress(codec, compressed[:-cut], MEBIBYTE)


# gzip


def test_gzip_is_what_the_standard_library_makes_of_it() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert decompress(Codec.GZIP, gzip.compress(TEXT), len(TEXT)) == TEXT


def test_gzip_members_may_follow_each_other() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Codec.GZIP, members, 100) == b"one two"


def test_zlib_without_the_gzip_header_is_malformed() -> None:
    with pytest.raises(MalformedCompression):
        decompress(Codec.GZIP, zlib.compress(TEXT), MEBIBYTE)


# snappy


def test_snappy_is_written_as_snappy_java_writes_it() -> None:
    compressed = compress(Codec.SNAPPY, TEXT)
    assert compressed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (length,) = struct.unpack_from(">i", compressed, 16)
    first = bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + length]))
    assert first == TEXT[: 32 * 1024]


def test_raw_snappy_is_read() -> None:
    # librdkafka and others send one raw block without a stream around it.
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, len(TEXT)) == TEXT


def test_snappy_streams_may_follow_each_other() -> None:
    streams = compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, streams, 100) == b"one two"


def test_a_snappy_block_cannot_claim_more_than_it_could_hold() -> None:
    claim_of_200_megabytes = b"\x80\xd0\xac\xf3\x00"[:4] + b"\x5f" + b"a" * 20
    with pytest.raises(MalformedCompression):
        decompress(Codec.SNAPPY, claim_of_200_megabytes, 1 << 30)


# lz4


def test_lz4_blocks_are_independent_and_of_64_kilobytes() -> None:
    # Java refuses frames whose blocks refer to the blocks before them.
    compressed = compress(Codec.LZ4, TEXT)
    assert compressed[:4] == b"\x04\x22\x4d\x18"
    assert compressed[4] & 0b1110_1111 == 0b0110_0000, "version 1, independent, no content size"
    assert compressed[5] == 4 << 4, "blocks of 64 KiB"


def test_lz4_with_linked_blocks_and_checksums_is_read() -> None:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=True)
    compressor.compress(TEXT)
    assert decompress(Codec.LZ4, bytes(compressor.finish()), len(TEXT)) == TEXT


def test_lz4_with_its_size_in_front_is_read_and_believed() -> None:
    from lz4 import frame

    compressed = frame.compress(TEXT, store_size=True)
    assert decompress(Codec.LZ4, compressed, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.LZ4, compressed, len(TEXT) - 1)
    assert frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT


# zstd


def test_zstd_with_and_without_its_size_in_front_is_read() -> None:
    import zstandard

    for size in (0, 1, 200, 255, 256, 300, 65_535, 65_536 + 256, len(TEXT)):
        for writes_size in (True, False):
            compressor = zstandard.ZstdCompressor(write_content_size=writes_size)
            compressed = compressor.compress(TEXT[:size])
            assert decompress(Codec.ZSTD, compressed, size) == TEXT[:size]
    whole = zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, TEXT))
    assert whole == TEXT


def test_zstd_frames_may_follow_each_other() -> None:
    frames = compress(Codec.ZSTD, b"one ") + compress(Codec.ZSTD, TEXT)
    assert decompress(Codec.ZSTD, frames, MEBIBYTE) == b"one " + TEXT


# Bombs


def _zeros(codec: Codec) -> bytes:
    return compress(codec, bytes(64 * MEBIBYTE))


def _zstd_stream() -> bytes:
    compressor = cramjam.zstd.Compressor(level=3)
    for _ in range(64):
        compressor.compress(bytes(MEBIBYTE))
    return bytes(compressor.finish())


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, lambda: gzip.compress(bytes(16 * MEBIBYTE), 9) * 16),
    "snappy stream": (Codec.SNAPPY, lambda: _zeros(Codec.SNAPPY)),
    "snappy block": (Codec.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(1 << 26)))),
    "lz4": (Codec.LZ4, lambda: _zeros(Codec.LZ4)),
    "zstd": (Codec.ZSTD, lambda: _zeros(Codec.ZSTD)),
    "zstd frames": (Codec.ZSTD, lambda: _zeros(Codec.ZSTD) * 64),
    "zstd without size": (Codec.ZSTD, _zstd_stream),
}


class PeakMemory:
    """How far the process's memory has risen above where it was, native code included."""

    def __init__(self) -> None:
        # Writing 5 sets the kernel's high-water mark back to what is in use now.
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._status("VmRSS")

    def growth_bytes(self) -> int:
        return self._status("VmHWM") - self._before

    @staticmethod
    def _status(name: str) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise LookupError(name)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_more_memory_than_the_limit_and_a_block(name: str) -> None:
    codec, make = BOMBS[name]
    bomb = make()
    decompress(codec, compress(codec, TEXT), len(TEXT))
    limit = 2 * MEBIBYTE
    peak = PeakMemory()
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb, limit)
    assert peak.growth_bytes() <= limit + 5 * MEBIBYTE


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_result_is_not_held_twice(codec: Codec) -> None:
    compressed = _zeros(codec)
    peak = PeakMemory()
    assert len(decompress(codec, compressed, 64 * MEBIBYTE)) == 64 * MEBIBYTE
    # Half of a second copy, for what the allocator and other threads take meanwhile.
    assert peak.growth_bytes() <= (64 + 32) * MEBIBYTE
