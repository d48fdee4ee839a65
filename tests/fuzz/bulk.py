"""Requests as large as a broker allows: valid, and with tens of thousands of elements.

    python -m tests.fuzz.bulk --bootstrap HOST:PORT [--pid PID] [--topics 500] [--only NAME]

For each API that takes arrays one request with a long outer array and one with a long inner
one. Beside it another connection asks for API versions all the time: the longest wait is how long
the one request held everybody up. What broker and probe waited for a processor is taken off, as
for the canary, if the broker's process is known.
"""

import argparse
import asyncio
import struct
import sys
import threading
import time
from collections.abc import Iterator
from random import Random
from socket import create_connection, socket
from typing import NamedTuple

from odradek.protocol.apis import all_apis
from odradek.protocol.headers import encode_request
from odradek.protocol.layout import Field, StructType
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.canary import Stopwatch
from tests.fuzz.requests import RequestMaker, Surroundings
from tests.fuzz.run import TOPICS
from tests.fuzz.wire import Wire, look_around, remove_others

# Requests may have 50,000 elements in all.
_WIDE = 12_000
_DEEP = 40_000
_PATIENCE_S = 60
_STALL_MS = 100.0
# What waits for others to come, or takes no arrays that a broker walks.
_LEFT_OUT = {SaslAuthenticateRequest.api_key, SaslHandshakeRequest.api_key}

_ASK = b"".join(encode_request(ApiVersionsRequest(), 0, 1, None))  # type: ignore[arg-type]


class BulkMaker(RequestMaker):
    """Every array has one element, but for those at one depth, which have many."""

    def __init__(self, random: Random, surroundings: Surroundings) -> None:
        super().__init__(random, surroundings)
        self._depth = 0
        self.long_depth = 1
        self.length = 1

    def _value(self, field: Field, version: int) -> object:
        if field.kind != "array":
            if version in field.nullable and field.kind == "struct":
                return None
            return super()._value(field, version)
        self._depth += 1
        count = self.length if self._depth == self.long_depth else 1
        values = [self._element(field, version) for _ in range(count)]
        self._depth -= 1
        return values


def depth_of(layout: StructType, version: int) -> int:
    """How many arrays lie inside each other."""
    depths = [0]
    for field in layout.fields:
        if version not in field.versions:
            continue
        inner = field.element
        below = depth_of(inner, version) if isinstance(inner, StructType) else 0
        depths.append(below + (field.kind == "array"))
    return max(depths)


class Probe(threading.Thread):
    """Asks all the time and notes the longest wait."""

    def __init__(self, address: tuple[str, int], pid: int | None) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._socket = create_connection(address)
        self._ends = False
        self.longest_ms = 0.0

    def run(self) -> None:
        while not self._ends:
            watch = Stopwatch(self._pid)
            self._socket.sendall(_ASK)
            receive(self._socket)
            self.longest_ms = max(self.longest_ms, watch.read()[1])
            time.sleep(0.001)

    def end(self) -> float:
        self._ends = True
        self.join()
        self._socket.close()
        return self.longest_ms


def receive(connection: socket) -> int:
    """Reads a frame away; how many bytes it had, or -1 if there is none to come."""
    head = b""
    while len(head) < 4:
        more = connection.recv(4 - len(head))
        if not more:
            return -1
        head += more
    (size,) = struct.unpack(">i", head)
    left = size
    while left:
        more = connection.recv(min(left, 1 << 20))
        if not more:
            return -1
        left -= len(more)
    return int(size)


class Bulk(NamedTuple):
    name: str
    frame: bytes


def bulks(surroundings: Surroundings, only: str | None) -> Iterator[Bulk]:
    for key, (_, highest) in surroundings.versions.items():
        name = all_apis()[key].name
        if key in _LEFT_OUT or (only is not None and only.lower() not in name.lower()):
            continue
        depth = depth_of(all_apis()[key].request, highest)
        for long_depth in range(1, depth + 1):
            newest = surroundings._replace(versions={key: (highest, highest)})
            maker = BulkMaker(Random(f"{name} {long_depth}"), newest)
            maker.long_depth = long_depth
            maker.length = _DEEP if long_depth == depth else _WIDE
            yield Bulk(f"{name} v{highest}, depth {long_depth}", maker.frame(key))


def measure(address: tuple[str, int], bulk: Bulk, pid: int | None) -> tuple[float, float, int]:
    """Milliseconds until it was answered, the longest wait of others, and the answer's size."""
    probe = Probe(address, pid)
    probe.start()
    connection = create_connection(address, timeout=_PATIENCE_S)
    begun = time.perf_counter()
    try:
        connection.sendall(bulk.frame)
        answer_bytes = receive(connection)
    except TimeoutError:
        answer_bytes = -2
    except OSError:
        answer_bytes = -1
    elapsed_ms = (time.perf_counter() - begun) * 1000
    time.sleep(0.05)
    connection.close()
    return elapsed_ms, probe.end(), answer_bytes


async def prepare(host: str, port: int, topics: int) -> Surroundings:
    wire = await Wire.open(host, port)
    try:
        await remove_others(wire, {*TOPICS})
        plain: dict[str, dict[str, str]] = {f"bulk-{number}": {} for number in range(topics)}
        return await look_around(wire, {**TOPICS, **plain})
    finally:
        wire.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.bulk", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--pid", type=int, help="the broker's process")
    parser.add_argument("--topics", type=int, default=500, help="how many to make beforehand")
    parser.add_argument("--only", help="a part of an API's name")
    arguments = parser.parse_args()
    host, _, port = arguments.bootstrap.rpartition(":")
    address = (host, int(port))
    surroundings = asyncio.run(prepare(*address, arguments.topics))
    stalls = 0
    for bulk in bulks(surroundings, arguments.only):
        elapsed_ms, stall_ms, answer_bytes = measure(address, bulk, arguments.pid)
        stalls += stall_ms > _STALL_MS
        mark = "STALL" if stall_ms > _STALL_MS else ""
        print(
            f"{bulk.name:45} {len(bulk.frame):>9} B, answered in {elapsed_ms:>7.0f} ms with "
            f"{answer_bytes:>9} B; others waited {stall_ms:>6.0f} ms {mark}",
            flush=True,
        )
    return 1 if stalls else 0


if __name__ == "__main__":
    sys.exit(main())
