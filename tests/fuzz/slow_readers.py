"""Readers over TLS that ask for much and read nothing: what they cost the broker in memory.

    python -m tests.fuzz.slow_readers [--readers 200]

A topic holds 64 MiB. Each reader connects to the SASL_SSL listener, logs in, asks for 50 MiB of it
several times over, and never reads the answer.
"""

import argparse
import asyncio
import ssl
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.client.sync import Admin, NewTopic, Producer
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import Request
from odradek.protocol.types import Offset
from tests.fuzz.attacks import frame
from tests.fuzz.report import MEBIBYTE
from tests.fuzz.run import MemoryWatch
from tests.fuzz.secured_broker import PASSWORD, USER, SecuredBroker, secured_broker

MAX_GROWTH_BYTES: Final = 60 * MEBIBYTE
_TOPIC: Final = "large"
_RECORD_BYTES: Final = 64 * 1024
_RECORDS: Final = 1024
_FETCH_BYTES: Final = 50 * MEBIBYTE
_FETCHES: Final = 5
_STANDING_S: Final = 5.0


def fill(broker: SecuredBroker) -> None:
    inside = f"127.0.0.1:{broker.ports['inside']}"
    with Admin(bootstrap_servers=inside) as admin:
        admin.create_topics([NewTopic(_TOPIC, partitions=1, replication_factor=1)])
    with Producer(bootstrap_servers=inside, linger_ms=20) as producer:
        sent = [producer.send(_TOPIC, bytes(_RECORD_BYTES)) for _ in range(_RECORDS)]
        for future in sent:
            future.result(timeout=60)


def allow(broker: SecuredBroker) -> None:
    """Lets the readers read."""
    with Admin(bootstrap_servers=f"127.0.0.1:{broker.ports['inside']}") as admin:
        pattern = ResourcePattern(ResourceType.TOPIC, _TOPIC, PatternType.LITERAL)
        entry = AccessEntry(f"User:{USER}", "*", Operation.READ, Permission.ALLOW)
        admin.create_acls([Acl(pattern, entry)]).raise_for_errors()


def _fetch() -> Request:
    partition = FetchPartition(
        partition=0, fetch_offset=Offset(0), partition_max_bytes=_FETCH_BYTES
    )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[FetchTopic(topic=_TOPIC, partitions=[partition])],
    )


async def growth_by(broker: SecuredBroker, readers: int) -> tuple[int, int]:
    """Returns by how many bytes the broker grew, and how many readers had their answer begun."""
    tls = ssl.create_default_context(cafile=broker.authority)
    port = broker.ports["sasl_ssl"]
    token = f"\0{USER}\0{PASSWORD}".encode()
    shaken = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    shaken += frame(SaslAuthenticateRequest(auth_bytes=token), 1)
    slots = asyncio.Semaphore(16)

    async def stand() -> asyncio.StreamWriter:
        async with slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=2**12)
            writer.write(shaken)
            for _ in range(2):
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
            writer.write(b"".join(frame(_fetch(), 11, number) for number in range(_FETCHES)))
            await reader.readexactly(4)  # The answer has begun, and nothing more is read.
            return writer

    first = await stand()
    first.transport.abort()
    with suppress(OSError):
        await first.wait_closed()
    watch = MemoryWatch(broker.pid)
    watching = asyncio.create_task(watch.run())
    writers = await asyncio.gather(*(stand() for _ in range(readers)))
    await asyncio.sleep(_STANDING_S)
    watching.cancel()
    begun = sum(not writer.transport.is_closing() for writer in writers)
    for writer in writers:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
    return watch.peak_bytes - watch.before_bytes, begun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.slow_readers", description=__doc__)
    parser.add_argument("--readers", type=int, default=200)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        secured_broker(Path(directory)) as broker,
    ):
        allow(broker)
        fill(broker)
        growth, begun = asyncio.run(growth_by(broker, arguments.readers))
    print(f"{begun} of {arguments.readers} readers cost {growth / MEBIBYTE:.1f} MiB")
    return 0 if growth <= MAX_GROWTH_BYTES and begun == arguments.readers else 1


if __name__ == "__main__":
    sys.exit(main())
