"""Thousands of half-open handshakes, and a good client beside them.

    python -m tests.fuzz.half_open [--connections 10000] [--reopen SECONDS] [--whole]

Each connection to the SASL_SSL listener sends half a ClientHello and stays; with --whole, a whole
one, so that the broker computes its part of the handshake and waits. What the broker closes, to
make room or because it took too long, is opened again after some seconds. Meanwhile a client in a
process of its own, which has logged in by TLS and SCRAM, asks for metadata every few milliseconds,
and another one logs in anew every 50 ms. Their p99 is compared with the same without the crowd. As
in `canary`, time that a process waited for a processor is taken off.
"""

import argparse
import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from odradek.client.admin.users import ScramUpsertion
from odradek.client.connection import Connection
from odradek.client.security import ClientSecurity
from odradek.client.settings import AdminSettings
from odradek.client.sync import Admin
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.security.scram import ScramMechanism
from odradek.world import Randomness
from tests.fuzz.canary import Stopwatch, percentile
from tests.fuzz.report import MEBIBYTE
from tests.fuzz.run import MemoryWatch
from tests.fuzz.secured_broker import PASSWORD, USER, SecuredBroker, secured_broker

_HALF_A_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)
# The settings of a broker that nobody has configured.
LIKE_OTHERS: Final = {
    "odradek__authentication__timeout__ms": "20000",
    "connection__failed__authentication__delay__ms": "100",
}
_BETWEEN_QUESTIONS_S: Final = 0.005
_BETWEEN_LOG_INS_S: Final = 0.05
_OPENED_AT_ONCE: Final = 200


class Served(NamedTuple):
    """How the good clients were served, in milliseconds, and how many times."""

    p50_ms: float
    p99_ms: float
    questions: int
    log_in_p99_ms: float
    log_ins: int


# The good clients, in a process of their own


def login(broker: SecuredBroker) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.ports['sasl_ssl']}",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": broker.authority,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} username="{USER}" password="{PASSWORD}";',
    }


async def _measure(properties: dict[str, str], pid: int, seconds: float) -> Served:
    security = ClientSecurity(AdminSettings.from_properties(properties), Randomness())
    host, _, port = properties["bootstrap.servers"].partition(":")
    questions: list[float] = []
    log_ins: list[float] = []
    end_s = time.monotonic() + seconds

    async def ask() -> None:
        connection = await Connection.open(host, int(port), security=security)
        while time.monotonic() < end_s:
            watch = Stopwatch(pid)
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)
            questions.append(watch.read()[1])
            await asyncio.sleep(_BETWEEN_QUESTIONS_S)
        connection.close()

    async def log_in() -> None:
        while time.monotonic() < end_s:
            watch = Stopwatch(pid)
            (await Connection.open(host, int(port), security=security)).close()
            log_ins.append(watch.read()[1])
            await asyncio.sleep(_BETWEEN_LOG_INS_S)

    await asyncio.gather(ask(), log_in())
    return Served(
        percentile(questions, 50),
        percentile(questions, 99),
        len(questions),
        percentile(log_ins, 99),
        len(log_ins),
    )


async def served(broker: SecuredBroker, seconds: float) -> Served:
    """Measures for some seconds, in another process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fuzz.half_open", "--measure", str(broker.pid)),
        *("--seconds", str(seconds)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate(json.dumps(login(broker)).encode())
    assert process.returncode == 0, "the good client failed"
    return Served(*json.loads(output))


# The crowd


class HalfOpen:
    """Keeps so many half-open handshakes with the broker."""

    def __init__(self, port: int, count: int, *, reopen_s: float, hello: bytes) -> None:
        self._port = port
        self._reopen_s = reopen_s
        self._hello = hello
        self._count = count
        self._slots = asyncio.Semaphore(_OPENED_AT_ONCE)
        self.opened = 0
        self.is_complete = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._count):
                tasks.create_task(self._stand())

    async def _stand(self) -> None:
        while True:
            with suppress(OSError):
                async with self._slots:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    writer.write(self._hello)
                self.opened += 1
                if self.opened >= self._count:
                    self.is_complete.set()
                try:
                    await reader.read()
                finally:
                    writer.transport.abort()
            await asyncio.sleep(self._reopen_s)


def whole_hello() -> bytes:
    """Returns a ClientHello."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(into, out, server_hostname="localhost").do_handshake()
    return out.read()


async def compare(
    broker: SecuredBroker,
    *,
    connections: int,
    seconds: float,
    reopen_s: float = 20.0,
    hello: bytes = _HALF_A_HELLO,
) -> tuple[Served, Served, HalfOpen, int]:
    """Returns how clients were served without and with the crowd, the crowd, and by how many bytes
    the broker grew."""
    with Admin(bootstrap_servers=f"127.0.0.1:{broker.ports['inside']}") as admin:
        user = ScramUpsertion.of_password(USER, PASSWORD, ScramMechanism.SHA_256)
        admin.alter_user_scram_credentials([user]).raise_for_errors()
    await served(broker, 1)
    alone = await served(broker, seconds)
    watch = MemoryWatch(broker.pid)
    crowd = HalfOpen(broker.ports["sasl_ssl"], connections, reopen_s=reopen_s, hello=hello)
    standing = asyncio.create_task(crowd.run())
    watching = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(60):
            await crowd.is_complete.wait()
        crowded = await served(broker, seconds)
    finally:
        for task in (standing, watching):
            task.cancel()
        await asyncio.gather(standing, watching, return_exceptions=True)
    return alone, crowded, crowd, watch.peak_bytes - watch.before_bytes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.half_open", description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--reopen", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--measure", type=int, metavar="PID", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        properties = json.loads(sys.stdin.read())
        print(json.dumps(asyncio.run(_measure(properties, arguments.measure, arguments.seconds))))
        return 0
    with (
        tempfile.TemporaryDirectory() as directory,
        secured_broker(Path(directory), **LIKE_OTHERS) as broker,
    ):
        alone, crowded, crowd, growth = asyncio.run(
            compare(
                broker,
                connections=arguments.connections,
                seconds=arguments.seconds,
                reopen_s=arguments.reopen,
                hello=whole_hello() if arguments.whole else _HALF_A_HELLO,
            )
        )
    print(f"alone:   {alone}")
    print(f"crowded: {crowded}")
    print(f"{crowd.opened} half-open handshakes; the broker grew by {growth / MEBIBYTE:.1f} MiB")
    ratio = crowded.p99_ms / alone.p99_ms
    log_ins = crowded.log_in_p99_ms / alone.log_in_p99_ms
    print(f"p99 of requests {ratio:.2f}x, of log-ins {log_ins:.2f}x")
    return 0 if ratio <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
