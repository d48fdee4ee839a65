"""An encrypted file is read and written like a plain one, and nothing of it can be read, changed or
moved without the key."""

import random
from typing import cast

import pytest

from odradek.invariants import InvariantViolation
from odradek.storage.encryption.encrypted_file import EncryptedFile
from odradek.storage.encryption.encrypting_disk import EncryptingDisk
from odradek.storage.encryption.layout import (
    FRAME_BYTES,
    SLOT_BYTES,
    frame_position,
    raw_position,
)
from odradek.storage.errors import CorruptLog
from odradek.world import MemoryDisk
from tests.unit.storage.encryption.encrypted_world import (
    DIRECTORY,
    MARKER,
    PATH,
    make_disk,
    make_keys,
    raw_bytes,
    watched_nonces,
)


def create(disk: EncryptingDisk, path: str = PATH) -> EncryptedFile:
    return cast(EncryptedFile, disk.open(path, create=True))


def raw(disk: EncryptingDisk) -> MemoryDisk:
    return cast(MemoryDisk, disk.disk)


def patterned(size: int) -> bytes:
    return (MARKER * (size // len(MARKER) + 1))[:size]


def appended(file: EncryptedFile, sizes: list[int]) -> bytes:
    content = b""
    for size in sizes:
        data = random.Random(len(content)).randbytes(size)
        file.write_at(len(content), [data[:16], memoryview(data)[16:]])
        content += data
    return content


def in_pieces(file: EncryptedFile, start: int, length: int) -> bytes:
    """What a reply sends: piece by piece, each as long as the file likes."""
    found = b""
    while length > 0 and (piece := bytes(file.read_some(start, length))):
        assert len(piece) <= length
        found, start, length = found + piece, start + len(piece), length - len(piece)
    return found


@pytest.mark.parametrize(
    "sizes",
    [
        [100],
        [FRAME_BYTES],
        [FRAME_BYTES - 1, 1, 1],
        [FRAME_BYTES + 1],
        [3 * FRAME_BYTES],
        [70, 5 * FRAME_BYTES, 70],
        [16_000, 1000, 15_768, 16_384, 3],
        [61] * 1000,
    ],
)
def test_what_was_appended_is_read_at_every_position(sizes: list[int]) -> None:
    disk = make_disk()
    file = create(disk)
    content = appended(file, sizes)
    again = 0
    for reader in (file, file):
        assert reader.size() == len(content)
        for start, length in [
            (0, len(content)),
            (0, 61),
            (len(content) - 1, 100),
            (FRAME_BYTES - 3, 6),
            (len(content) // 2, 8192),
            (len(content), 10),
        ]:
            assert reader.read_at(start, length) == content[start : start + length]
            assert in_pieces(reader, start, length) == content[start : start + length]
        if not again:
            file.seal(len(content))
            again += 1
    reopened = create(disk)
    assert reopened.size() == disk.size(PATH) == len(content)
    assert reopened.read_at(0, len(content)) == content
    assert not reopened.takes_appends


def test_pieces_of_a_reply_do_not_share_their_memory() -> None:
    """The memory that they are read through is used again, theirs is not: it is still being sent
    while the next one is read."""
    disk = make_disk()
    content = appended(create(disk), [40 * FRAME_BYTES])
    file = create(disk)
    pieces = [file.read_some(at, 1 << 18) for at in range(7, len(content), 1 << 17)]
    for at, piece in zip(range(7, len(content), 1 << 17), pieces, strict=True):
        assert len(piece) >= FRAME_BYTES
        assert bytes(piece) == content[at : at + len(piece)]


def test_no_plain_byte_is_on_the_disk() -> None:
    disk = make_disk()
    file = create(disk)
    file.write_at(0, [patterned(50_000)])
    assert MARKER not in raw_bytes(raw(disk))
    file.truncate(20_000)
    assert MARKER not in raw_bytes(raw(disk))
    file.close()


def test_a_position_needs_no_table() -> None:
    """A cipher byte is where `raw_position` says: what is appended goes there, and nowhere else."""
    disk = make_disk()
    file = create(disk)
    position = 0
    for size in (100, 16_284, 50_000, 7):
        file.write_at(position, [bytes(size)])
        position += size
        assert raw(disk).size(PATH) == raw_position(position)


def test_random_appends_reads_and_cuts_are_those_of_a_plain_file() -> None:
    source = random.Random(5)
    for _ in range(60):
        disk = make_disk()
        content, file = b"", create(disk)
        with watched_nonces() as used:
            for _ in range(source.randint(1, 30)):
                data = source.randbytes(source.choice((1, 100, 5000, FRAME_BYTES, 40_000)))
                file.write_at(len(content), [data])
                content += data
            while content:
                content = content[: source.randrange(len(content) + 1)]
                file.truncate(len(content))
                assert file.size() == len(content)
                assert file.read_at(0, 1 << 20) == content
                if source.random() < 0.5:
                    file = create(disk)
                    assert file.size() == len(content)
                    assert file.read_at(0, 1 << 20) == content
                start = source.randrange(len(content) + 1)
                assert in_pieces(file, start, 1 << 20) == content[start:]
        assert max(used.values()) == 1


def test_cutting_and_rewriting_repeats_no_nonce() -> None:
    """A file that was cut takes no appends, but from its first byte on, with another key."""
    disk = make_disk()
    with watched_nonces() as used:
        for _ in range(20):
            file = create(disk)
            file.write_at(0, [patterned(40_000)])
            file.truncate(39_000)
            with pytest.raises(InvariantViolation):
                file.write_at(39_000, [b"x"])
            assert not file.takes_appends
            file.truncate(0)
            assert file.takes_appends
    assert len(used) == 20 * 4  # Three frames, and the part of one that was cut.
    assert max(used.values()) == 1


def test_a_failed_write_ends_the_file() -> None:
    class FullDisk(MemoryDisk):
        is_full = False

    disk = make_disk()
    file = create(disk)
    file.write_at(0, [patterned(10_000)])
    inner = file.file
    written = inner.write_at

    def fail(position: int, buffers: list[bytes]) -> None:
        written(position, [b"".join(buffers)[:9_000]])
        raise OSError(28, "no space left on device")

    file.file = _Failing(inner, fail)  # type: ignore[assignment]
    with pytest.raises(OSError, match="no space"):
        file.write_at(10_000, [patterned(20_000)])
    file.file = inner
    file.truncate(10_000)
    assert file.read_at(0, 1 << 20) == patterned(10_000)
    assert not file.takes_appends
    assert create(disk).read_at(0, 1 << 20) == patterned(10_000)


class _Failing:
    def __init__(self, file: object, write_at: object) -> None:
        self._file = file
        self.write_at = write_at

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


# Tampering


def sealed_file(size: int = 50_000) -> EncryptingDisk:
    disk = make_disk()
    file = create(disk)
    file.write_at(0, [patterned(size)])
    file.seal(size)
    file.close()
    return disk


def test_every_flipped_bit_is_noticed_and_nothing_of_its_frame_is_served() -> None:
    disk = sealed_file()
    sound = raw(disk).read(PATH)
    for position in range(frame_position(0), len(sound), 101):
        changed = bytearray(sound)
        changed[position] ^= 1 << position % 8
        raw(disk).replace(PATH, bytes(changed))
        with pytest.raises(CorruptLog, match="fails its check"):
            create(disk).read_at(0, 1 << 20)
        with pytest.raises(CorruptLog, match="fails its check"):
            in_pieces(create(disk), 7, 1 << 20)
    raw(disk).replace(PATH, sound)
    assert create(disk).read_at(0, 1 << 20) == patterned(50_000)


def test_frames_that_were_swapped_are_noticed() -> None:
    disk = sealed_file()
    content = bytearray(raw(disk).read(PATH))
    first, second, third = (frame_position(n) for n in range(3))
    content[first:second], content[second:third] = content[second:third], content[first:second]
    raw(disk).replace(PATH, bytes(content))
    with pytest.raises(CorruptLog):
        create(disk).read_at(0, 100)


@pytest.mark.parametrize("other", [f"/data/orders-1/{0:020d}.log", f"{DIRECTORY}/{7:020d}.log"])
def test_a_file_at_another_place_is_refused(other: str) -> None:
    """Also if its header is changed to say that it belongs there."""
    disk = sealed_file()
    content = raw(disk).read(PATH)
    disk.make_directories("/data/orders-1")
    raw(disk).replace(other, content)
    with pytest.raises(CorruptLog, match="at another place"):
        disk.open(other)
    place = PATH.removeprefix("/data/").encode()
    file = disk.open(PATH)
    assert isinstance(file, EncryptedFile)
    assert file.slot is not None
    forged = bytearray(content)
    from dataclasses import replace

    slot = replace(file.slot, place=other.removeprefix("/data/"), number=9).encode()
    assert place in content
    forged[SLOT_BYTES : SLOT_BYTES + len(slot)] = slot
    raw(disk).replace(other, bytes(forged))
    with pytest.raises(CorruptLog, match="fails its check"):
        disk.open(other).read_at(0, 100)


def test_a_damaged_header_is_read_from_its_copy() -> None:
    disk = sealed_file()
    content = bytearray(raw(disk).read(PATH))
    content[100] ^= 1
    raw(disk).replace(PATH, bytes(content))
    assert create(disk).read_at(0, 1 << 20) == patterned(50_000)


def test_another_key_does_not_decrypt() -> None:
    disk = sealed_file()
    from odradek.storage.encryption.data_keys import DataKey

    keys = make_keys()
    keys.add(DataKey("orders-key", b"wrapped", bytes(32)))
    with pytest.raises(CorruptLog):
        EncryptingDisk(disk.disk, keys).open(PATH).read_at(0, 10)


# Crashes


@pytest.mark.parametrize("size", [10, 16_384, 16_390, 40_000])
def test_recovery_reads_a_file_that_was_never_sealed(size: int) -> None:
    disk = make_disk()
    file = create(disk)
    file.write_at(0, [patterned(size)])
    killed = create(disk)  # Of the next process.
    assert killed.size() == size
    if size % FRAME_BYTES:
        with pytest.raises(CorruptLog):
            killed.read_at(size - 1, 1)
    with watched_nonces() as used:
        assert killed.begin_recovery() == size
        assert killed.read_at(0, 1 << 20) == patterned(size)
        killed.seal(size)
    assert max(used.values(), default=1) == 1
    assert create(disk).read_at(0, 1 << 20) == patterned(size)


def test_bytes_that_were_synced_survive_a_torn_frame() -> None:
    """The frame was completed after the sync, and a power cut left its first bytes only."""
    disk = make_disk()
    file = create(disk)
    file.write_at(0, [patterned(10_000)])
    file.sync()
    file.write_at(10_000, [patterned(30_000)])
    content = bytearray(raw(disk).read(PATH))
    torn = raw_position(10_000)
    content[torn:] = bytes(len(content) - torn)
    raw(disk).replace(PATH, bytes(content))
    recovered = create(disk)
    assert recovered.begin_recovery() == FRAME_BYTES
    assert recovered.read_at(0, 10_000) == patterned(10_000)
    recovered.truncate(10_000)
    assert create(disk).read_at(0, 1 << 20) == patterned(10_000)


def test_a_cut_whose_slot_was_lost_is_undone() -> None:
    disk = sealed_file()
    before = raw(disk).read(PATH)
    file = create(disk)
    file.truncate(20_000)
    content = bytearray(raw(disk).read(PATH))
    content[: 2 * SLOT_BYTES] = before[: 2 * SLOT_BYTES]
    raw(disk).replace(PATH, bytes(content))
    restored = create(disk)
    assert restored.read_at(0, 1 << 20) == patterned(2 * FRAME_BYTES)


def test_a_cut_whose_part_was_lost_is_undone() -> None:
    disk = sealed_file()
    file = create(disk)
    file.truncate(20_000)
    file.truncate(19_000)
    content = bytearray(raw(disk).read(PATH))
    for slot in (0, 1):
        content[slot * SLOT_BYTES + 4096 : (slot + 1) * SLOT_BYTES] = bytes(SLOT_BYTES - 4096)
    raw(disk).replace(PATH, bytes(content))
    assert create(disk).read_at(0, 1 << 20) == patterned(2 * FRAME_BYTES)
