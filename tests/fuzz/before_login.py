"""Attacks a broker before the log-in, by TLS, SASL_PLAINTEXT and SASL_SSL, and proves that nobody
got in and nothing changed.

    python -m tests.fuzz.before_login [--inputs 200000] [--seed N]

It starts a broker of its own. After every input the connection is closed, at the latest when the
time for log-ins is over, and no request for metadata was answered with brokers. At the end the
metadata store has the nodes and versions that it had before, and the data directory the same files;
the broker lives and has not grown, and a client that was there all the time was served.
"""

import argparse
import asyncio
import shutil
import ssl
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

from odradek.cli.cluster.metadata_stores import opened
from tests.fuzz import canary
from tests.fuzz.attacks import PROBE_ID, Attack, AttackSource
from tests.fuzz.report import MEBIBYTE
from tests.fuzz.requests import Surroundings
from tests.fuzz.run import MemoryWatch, singing
from tests.fuzz.secured_broker import SecuredBroker, secured_broker
from tests.fuzz.wire import Wire, look_around

_TOPIC: Final = "secret-topic"
# The broker closes what is silent for as long as its time for log-ins, half a second.
_PATIENCE_S: Final = 20.0
_LUMP: Final = 10_000
_SHOWN: Final = 20
# The loop's buffers, the arenas of OpenSSL, and what is remembered of unknown users.
MAX_GROWTH_BYTES: Final = 64 * MEBIBYTE
# Of what a broker writes for itself, and of the canary.
_OWN: Final = ("server.log", "checkpoint", f"{canary.TOPIC}-0", "metadata.sqlite", ".log")

State = dict[str, object]


@dataclass(slots=True)
class Outcome:
    """What a run has shown."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    growth_bytes: int = 0
    is_alive: bool = True
    song: dict[str, object] = field(default_factory=dict)
    errors_logged: int = 0

    def faults(self) -> list[str]:
        """One line for each promise that was not kept."""
        found = [*self.violations, *self.changes]
        if not self.is_alive:
            found.append("the broker has died")
        if self.growth_bytes > MAX_GROWTH_BYTES:
            found.append(f"memory grew by {self.growth_bytes // MEBIBYTE} MiB")
        if self.song.get("failures") or not self.song.get("round_trips"):
            found.append(f"the canary failed: {self.song}")
        if self.errors_logged:
            found.append(f"{self.errors_logged} tracebacks in the log")
        return found


class Attacker:
    """Sends attacks over some connections at a time, and judges each."""

    def __init__(self, broker: SecuredBroker, outcome: Outcome) -> None:
        self._ports = broker.ports
        self._outcome = outcome
        self._tls = ssl.create_default_context(cafile=broker.authority)

    async def run(self, source: AttackSource, numbers: range, connections: int) -> None:
        shared = iter(numbers)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(connections):
                tasks.create_task(self._work(source, shared))

    async def _work(self, source: AttackSource, numbers: Iterator[int]) -> None:
        for number in numbers:
            attack = source.attack(number)
            self._outcome.kinds[f"{attack.kind} to {attack.listener}"] += 1
            try:
                result = await self._try(attack)
            except TimeoutError:  # It is an OSError too.
                result = "silence"
                self._note(f"input {number} was not closed in time", attack)
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
                result = "closed"
            self._outcome.outcomes[result] += 1
            if result == "got in":
                self._note(f"input {number} got in", attack)

    def _note(self, what: str, attack: Attack) -> None:
        if len(self._outcome.violations) < _SHOWN:
            shown = attack.data[:300].hex()
            self._outcome.violations.append(f"{what} ({attack.kind}, {attack.listener}): {shown}")

    async def _try(self, attack: Attack) -> str:
        tls = self._tls if attack.is_inside_tls else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._ports[attack.listener], ssl=tls
        )
        try:
            writer.write(attack.data)
            async with asyncio.timeout(_PATIENCE_S):
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    if attack.kind == "TLS":
                        return "alert"  # Five bytes of a TLS record; there is nothing to read.
                    answer = await reader.readexactly(size)
                    if _lists_brokers(answer):
                        return "got in"
        finally:
            writer.transport.abort()


def _lists_brokers(answer: bytes) -> bool:
    """Whether this is an answer to the probe that a client gets who is in."""
    return (
        len(answer) >= 8 and answer[:4] == struct.pack(">i", PROBE_ID) and answer[4:8] != bytes(4)
    )


async def state_of(broker: SecuredBroker) -> State:
    """Returns everything that an input could have changed: nodes of the metadata store with their
    versions, and files."""
    data = broker.process.data_directory
    state: State = {}
    async with opened(str(data)) as store:
        for path, node in (await store.nodes.read_tree("/")).items():
            if canary.TOPIC not in path:
                state[path] = (node.value, node.version)
    for file in data.parent.rglob("*"):
        if file.is_file() and not any(part in str(file) for part in _OWN):
            state[str(file)] = file.stat().st_size
    return state


def differences(before: State, after: State) -> list[str]:
    return [
        f"{path} changed: {before.get(path)!r} -> {after.get(path)!r}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


async def attack_broker(
    broker: SecuredBroker, *, inputs: int, seed: int, connections: int, shows_progress: bool = False
) -> Outcome:
    outcome = Outcome()
    address = ("127.0.0.1", broker.ports["inside"])
    wire = await Wire.open(*address)
    surroundings: Surroundings = await look_around(wire, {_TOPIC: {}})
    wire.close()
    source, attacker = AttackSource(seed, surroundings), Attacker(broker, outcome)
    async with singing(*address, broker.pid) as song:
        # What the broker loads at its first log-ins is loaded.
        await attacker.run(source, range(-500, 0), connections)
        before, watch = await state_of(broker), MemoryWatch(broker.pid)
        watching = asyncio.create_task(watch.run())
        for start in range(0, inputs, _LUMP):
            numbers = range(start, min(start + _LUMP, inputs))
            await attacker.run(source, numbers, connections)
            if shows_progress:
                print(f"{numbers.stop} inputs", dict(outcome.outcomes), file=sys.stderr, flush=True)
            if not watch.is_alive:
                break
        watching.cancel()
        outcome.is_alive = watch.is_alive
        outcome.growth_bytes = watch.peak_bytes - watch.before_bytes
        if watch.is_alive:
            outcome.changes = differences(before, await state_of(broker))
    outcome.song = song
    log = broker.process.output.read_text(errors="replace")
    logs = broker.process.data_directory.rglob("*.log")
    outcome.errors_logged = sum(
        text.count("Traceback")
        for text in [log, *(one.read_text(errors="replace") for one in logs)]
    )
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.before_login", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--connections", type=int, default=32)
    arguments = parser.parse_args()
    begun_s = perf_counter()
    directory = Path(tempfile.mkdtemp(prefix="odradek-before-login-"))
    with secured_broker(directory) as broker:
        outcome = asyncio.run(
            attack_broker(
                broker,
                inputs=arguments.inputs,
                seed=arguments.seed,
                connections=arguments.connections,
                shows_progress=True,
            )
        )
    elapsed_s = perf_counter() - begun_s
    print(f"{arguments.inputs} inputs in {elapsed_s:.0f} s: {dict(outcome.outcomes)}")
    print(dict(outcome.kinds))
    print(f"memory grew by {outcome.growth_bytes / MEBIBYTE:.1f} MiB at most; {outcome.song}")
    faults = outcome.faults()
    if not faults:
        shutil.rmtree(directory)
    for fault in faults:
        print("FAULT:", fault)
    print("Every promise was kept." if not faults else f"The broker's files are in {directory}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
