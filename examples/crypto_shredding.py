"""Deleting a person's data from a log that cannot be changed: encrypt it, and destroy the key.

    pip install cryptography
    python examples/crypto_shredding.py localhost:9092

Every person has a key of their own in the compacted topic `person-keys`. Values in other topics are
encrypted with it. Whoever writes a tombstone for the key makes all of that person's records
unreadable, wherever they are: in topics, archives, backups. `docs/deleting-data.md` says when the
key itself has left the disks.

The encryption comes from a library and is given to `PersonKeys`: anything with `generate_key()`,
and after a call with the key `encrypt(bytes)` and `decrypt(bytes)`, as `Fernet` of the package
`cryptography` has them. Do not write your own.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any, Protocol

from odradek.client import Admin, Consumer, NewTopic, Producer

KEYS = "person-keys"
# A key must leave the disks within a day after its tombstone, and a tombstone stays for a day.
KEYS_CONFIG = {"cleanup.policy": "compact", "max.compaction.lag.ms": "86400000"}


class Cipher(Protocol):
    def encrypt(self, data: bytes, /) -> bytes: ...
    def decrypt(self, token: bytes, /) -> bytes: ...


class CipherType(Protocol):
    def generate_key(self) -> bytes: ...
    def __call__(self, key: bytes, /) -> Cipher: ...


class PersonKeys:
    """Keys by person, in a topic. It keeps no copy of a key, so that a deleted one is gone at once;
    a program that needs a cache must forget its entries within a known time."""

    def __init__(self, consumer: Consumer, producer: Producer, cipher: CipherType) -> None:
        self._consumer = consumer
        self._producer = producer
        self._cipher = cipher

    async def encrypt(self, person: str, data: bytes) -> bytes:
        """Encrypts what is known about a person, with a new key if there is none. Only one program
        may make keys for a person, or two of them would overwrite each other's."""
        key = await self._find(person)
        if key is None:
            key = self._cipher.generate_key()
            # Acknowledged before the first record that needs it is written.
            await self._producer.send_and_wait(KEYS, key, key=person.encode())
        return self._cipher(key).encrypt(data)

    async def decrypt(self, person: str, token: bytes) -> bytes | None:
        """Returns the data, or None if the person was forgotten."""
        key = await self._find(person)
        return None if key is None else self._cipher(key).decrypt(token)

    async def forget(self, person: str) -> None:
        await self._producer.send_and_wait(KEYS, None, key=person.encode())

    async def _find(self, person: str) -> bytes | None:
        found = await self._consumer.get(KEYS, person.encode())
        return None if found is None else found.value


async def main(servers: str, cipher: CipherType, topic: str = "visits") -> list[bytes | None]:
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topics([NewTopic(KEYS, configs=KEYS_CONFIG)])
        keys = PersonKeys(consumer, producer, cipher)
        for person, visit in (("42", b"Ada was here"), ("7", b"Grace was here")):
            value = await keys.encrypt(person, visit)
            await producer.send_and_wait(topic, value, key=person.encode())
        await keys.forget("42")
        consumer.assign([(topic, 0)])
        read: list[bytes | None] = []
        while len(read) < 2:
            record = await anext(consumer)
            read.append(await keys.decrypt(record.key.decode(), record.value))
            print(record.key.decode(), "forgotten" if read[-1] is None else read[-1].decode())
        return read


def fernet() -> Any:
    try:
        return import_module("cryptography.fernet").Fernet
    except ImportError:
        sys.exit("this example needs a library for encryption: pip install cryptography")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(main(sys.argv[1], fernet()))
