"""Reads a segment from its first batch to its last, in chunks, and checks every checksum."""

from collections.abc import Iterator

from odradek.protocol.compression import MalformedCompression, decompress
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    MalformedRecords,
    crc_is_valid,
    read_header,
)
from odradek.storage.errors import CorruptLog
from odradek.world.disk import File

Chunk = list[tuple[BatchHeader, memoryview]]


def read_chunks(file: File, path: str, size: int, chunk_bytes: int) -> Iterator[tuple[int, Chunk]]:
    """Yields whole batches and their size in bytes, about `chunk_bytes` at a time, or one batch if
    it is larger."""
    position = 0
    while position < size:
        buffer = file.read_at(position, min(chunk_bytes, size - position))
        length = _first_length(buffer, path, position)
        if length > len(buffer):
            if position + length > size:
                raise CorruptLog(path, position, "the last batch is cut short")
            buffer = file.read_at(position, length)
        chunk, used = _split(buffer, path, position)
        yield used, chunk
        position += used


def _first_length(buffer: bytes, path: str, position: int) -> int:
    try:
        return read_header(buffer).size_bytes
    except MalformedRecords as error:
        raise CorruptLog(path, position, str(error)) from error


def _split(buffer: bytes, path: str, start: int) -> tuple[Chunk, int]:
    chunk: Chunk = []
    view = memoryview(buffer)
    at = 0
    while at + HEADER_SIZE <= len(buffer):
        try:
            header = read_header(buffer, at)
        except MalformedRecords as error:
            raise CorruptLog(path, start + at, str(error)) from error
        end = at + header.size_bytes
        if end > len(buffer):
            break
        if not crc_is_valid(view, at, header):
            raise CorruptLog(path, start + at, "the batch fails its checksum")
        chunk.append((header, view[at:end]))
        at = end
    return chunk, at


def payload(header: BatchHeader, batch: memoryview) -> bytes:
    """The decompressed records of a batch."""
    if not header.record_count:
        return b""
    try:
        return decompress(header.codec, batch[HEADER_SIZE:])
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error
