"""A broker process, of Odradek or Apache Kafka: start, wait until ready, measure, stop, kill.

Tests and benchmarks use both brokers through this class, so that neither is favoured. Readiness is
an answered Metadata request with a broker in it, not a line of output.

Invariant: a process started here is ended by its own process id, never by name.
"""

import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


class ToolMissing(Exception):
    """An external program is missing; the message says how to install it."""


def free_ports(count: int) -> list[int]:
    """Ports that are free now, distinct among themselves."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time and memory of a broker's process tree."""

    cpu_s: float
    resident_bytes: int


class BrokerProcess:
    """A started broker on loopback."""

    def __init__(
        self,
        name: str,
        process: "subprocess.Popen[bytes]",
        port: int,
        data_directory: Path,
        output: Path,
    ) -> None:
        self.name = name
        self.process = process
        self.port = port
        self.data_directory = data_directory
        self.output = output

    @classmethod
    def start(
        cls, *, name: str, command: Sequence[str], port: int, data_directory: Path, output: Path
    ) -> "BrokerProcess":
        with output.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return cls(name, process, port, data_directory, output)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        return self.process.pid

    def usage(self) -> Usage:
        """Returns CPU seconds (user and system) and resident memory, including child processes."""
        root = psutil.Process(self.process.pid)
        cpu_s = 0.0
        resident_bytes = 0
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
                resident_bytes += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            cpu_s += times.user + times.system
        return Usage(cpu_s, resident_bytes)

    def said(self) -> str:
        """Returns the end of the broker's output, for error messages."""
        return self.output.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stops the broker cleanly. If it does not stop in time, it is killed and an error is
        raised."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError(f"{self.name} did not stop; it said:\n{self.said()}") from None
        return self.process.returncode


def metadata_answer_names_a_broker(port: int, timeout_s: float = 2.0) -> bool:
    """Sends a Metadata v1 request for no topic. Returns True if the response lists a broker."""
    body = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.makefile("rb").read(12)
    except OSError:
        return False
    if len(answer) < 12:
        return False
    brokers: int = struct.unpack_from(">i", answer, 8)[0]
    return brokers > 0


def wait_until_ready(broker: BrokerProcess, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Returns when the broker answers. Raises with its output if it ends or does not answer in
    time."""
    deadline = time.monotonic() + timeout_s
    while not metadata_answer_names_a_broker(broker.port):
        if broker.process.poll() is not None:
            raise RuntimeError(f"{broker.name} ended while starting; it said:\n{broker.said()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} did not answer; it said:\n{broker.said()}")
        time.sleep(0.01)


def odradek_program() -> str:
    """The ``odradek`` command of the environment this runs in."""
    program = Path(sys.executable).parent / "odradek"
    if not program.exists():
        raise ToolMissing(f"{program} is not there: run scripts/test or pip install -e '.[dev]'")
    return str(program)


def start_odradek(
    directory: Path,
    overrides: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    in_memory: bool = False,
) -> BrokerProcess:
    """Start ``odradek up`` in ``directory`` and return at once."""
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_ports(1)[0]
    data_directory = directory / "data"
    command = [odradek_program(), "up", "--port", str(port)]
    command += ["--memory"] if in_memory else ["--data", str(data_directory)]
    for key, value in (overrides or {}).items():
        command += ["--override", f"{key}={value}"]
    return BrokerProcess.start(
        name="Odradek",
        command=command,
        port=port,
        data_directory=data_directory,
        output=directory / "server.log",
    )


def ready_odradek(
    directory: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None
) -> BrokerProcess:
    """Starts ``odradek up`` and returns when it answers. The caller ends it."""
    broker = start_odradek(directory, overrides, port=port)
    try:
        wait_until_ready(broker)
    except BaseException:
        broker.kill()
        raise
    return broker


@contextmanager
def odradek_broker(
    directory: Path, overrides: Mapping[str, str] | None = None, *, in_memory: bool = False
) -> Iterator[BrokerProcess]:
    """A running Odradek broker, stopped cleanly at the end."""
    broker = start_odradek(directory, overrides, in_memory=in_memory)
    try:
        wait_until_ready(broker)
        yield broker
    finally:
        broker.stop()
