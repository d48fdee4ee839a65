"""What the tests of encryption at rest share: keys, logs on a disk, and a watch on nonces."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from odradek.security.keys.key_file import KeyFile
from odradek.storage import LogManager
from odradek.storage.encryption import encrypted_file
from odradek.storage.encryption.data_keys import DataKey, DataKeys
from odradek.storage.encryption.encrypting_disk import EncryptingDisk
from odradek.world import MemoryDisk, Randomness, World
from odradek.world.disk import Disk
from tests.unit.storage.storage_world import make_manager

KEY = "orders-key"
DIRECTORY = "/data/orders-0"
PATH = f"{DIRECTORY}/{0:020d}.log"
MARKER = b"the-marker-of-a-secret"


def make_keys(*, seed: int = 1, directory: str = DIRECTORY) -> DataKeys:
    """Keys as after a start: one data key is ready."""
    keys = DataKeys(Randomness(seed))
    keys.assign(directory, KEY)
    keys.add_ready([DataKey(KEY, b"wrapped", bytes(range(32)))])
    return keys


def make_disk(disk: Disk | None = None, keys: DataKeys | None = None) -> EncryptingDisk:
    disk = disk or MemoryDisk()
    disk.make_directories(DIRECTORY)
    return EncryptingDisk(disk, keys or make_keys())


def create_key(world: World, name: str = KEY) -> KeyFile:
    world.disk.make_directories("/keys")
    provider = KeyFile("/keys/topics.json", world)
    provider.create(name)
    return provider


def encrypting_manager(world: World, **properties: str) -> LogManager:
    return make_manager(
        world,
        odradek_key_provider="file",
        odradek_key_file="/keys/topics.json",
        odradek_encryption_key=KEY,
        **properties,
    )


def raw_bytes(disk: MemoryDisk) -> bytes:
    """Everything that is on a disk, but for the keys."""
    return b"\n".join(
        bytes(content) for path, content in disk.files.items() if not path.startswith("/keys")
    )


@contextmanager
def watched_nonces() -> Iterator[Counter[tuple[bytes, bytes]]]:
    """Counts how often each pair of key and nonce encrypts."""
    used: Counter[tuple[bytes, bytes]] = Counter()

    real_aead, real_cipher = AESGCM, Cipher

    class _Aead:
        def __init__(self, key: bytes) -> None:
            self._key, self._aead = key, real_aead(key)

        def encrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
            used[self._key, bytes(nonce)] += 1
            return self._aead.encrypt(nonce, data, associated)

        def decrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
            return self._aead.decrypt(nonce, data, associated)

        def decrypt_into(self, nonce: bytes, data: Any, associated: bytes, buffer: Any) -> int:
            return self._aead.decrypt_into(nonce, data, associated, buffer)

    class _Cipher:
        def __init__(self, algorithm: Any, mode: Any) -> None:
            self._pair = bytes(algorithm.key), bytes(mode.initialization_vector)
            self._cipher = real_cipher(algorithm, mode)

        def encryptor(self) -> Any:
            used[self._pair] += 1
            return self._cipher.encryptor()

        def decryptor(self) -> Any:
            return self._cipher.decryptor()

    with (
        patch.object(encrypted_file, "AESGCM", _Aead),
        patch.object(encrypted_file, "Cipher", _Cipher),
    ):
        yield used
