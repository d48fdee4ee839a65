"""Three brokers as real processes, and what can be done to each of them.

`odradek up --brokers 3` starts the cluster and keeps its metadata store; a broker that was ended
comes back with `odradek broker D/broker-i/server.properties`, as its operator would do it.

With `apart=True` every broker gets a network namespace of its own, so that it can be cut off: the
brokers are stopped, given other addresses and started again there. This needs root and
`ip netns`. The metadata store is reached through a Unix socket and is not cut. With
`small_disks=True` each broker's directory is a tmpfs that can be filled; this needs root too.

Invariant: only processes whose ids this cluster has written down are signalled.
"""

import os
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final, Protocol, Self

import psutil

from odradek.config.properties import parse_properties
from odradek.security.certificates import CertificateDirectory
from odradek.security.keys.key_file import KeyFile
from odradek.world import OsDisk, SystemClock, World
from tests.scenarios.namespaces import CannotRun, Namespaces, inside

START_S: Final = 60.0
STOP_S: Final = 60.0
_UNMOUNT_S: Final = 10.0
PORT_INSIDE: Final = 9092
_DISK_BYTES: Final = 300 * 1024 * 1024
_KEY: Final = "topics"
_LEAST_BYTES: Final = 10_000
_READY: Final = "odradek is ready at "


def odradek() -> str:
    return str(Path(sys.executable).parent / "odradek")


class Seat:
    """One broker: where it lives, and its process while it has one."""

    def __init__(self, number: int, directory: Path, host: str, port: int) -> None:
        self.id = number
        self.directory = directory
        self.host = host
        self.port = port
        self.namespace: str | None = None
        # What starts it; the file with its properties follows.
        self.program = [odradek(), "broker"]
        # The certificate to trust, if it speaks TLS.
        self.authority: str | None = None
        self.is_paused = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Its process, as it wrote it down itself; None if that is gone."""
        try:
            pid = int((self.directory / "broker.pid").read_text())
            process = psutil.Process(pid)
            return pid if process.status() != psutil.STATUS_ZOMBIE else None
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    @property
    def is_ours(self) -> bool:
        """Whether it was started here, and not by `odradek up`."""
        return self._process is not None

    def start(self) -> float:
        """Returns how long it took until it answered."""
        assert not self.is_running, f"broker {self.id} runs already"
        began = time.monotonic()
        beginning = [] if self.namespace is None else inside(self.namespace)
        log = self.directory / "server.log"
        with (self.directory / "restarts.out").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *beginning,
                    *(*self.program, str(self.directory / "server.properties")),
                    *("--log-file", str(log)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        while not answers(self.host, self.port, self.authority):
            if self._process.poll() is not None:
                raise AssertionError(f"broker {self.id} did not start:\n{self.said()}")
            if time.monotonic() - began > START_S:
                raise AssertionError(f"broker {self.id} does not answer:\n{self.said()}")
            time.sleep(0.005)
        return time.monotonic() - began

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.is_paused = False
        self._wait_until_gone()

    def stop(self) -> float:
        """Cleanly; returns how long it took."""
        began = time.monotonic()
        self._signal(signal.SIGTERM)
        self._wait_until_gone()
        return time.monotonic() - began

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def mount_small_disk(self) -> None:
        """What it holds is gone with the cluster; take care to look before."""
        self.directory.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "odradek", str(self.directory)],
            check=True,
            capture_output=True,
        )

    def unmount(self) -> None:
        """Everything that is mounted there, one above the other."""
        deadline = time.monotonic() + _UNMOUNT_S
        while self.directory.is_mount():
            is_late = time.monotonic() > deadline
            command = ["umount", *(("--lazy",) if is_late else ()), str(self.directory)]
            done = subprocess.run(command, check=is_late, capture_output=True)
            if done.returncode:
                # What was mounted above it has not let go of it yet.
                time.sleep(0.05)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leaves no byte free meanwhile."""
        filler = self.directory / "filler"
        try:
            # Unbuffered: a buffer that does not fit any more would be written again by `close`.
            with filler.open("wb", buffering=0) as file:
                for size in (1 << 16, 1 << 9, 1):
                    _write_until_refused(file, bytes(size))
            yield
        finally:
            filler.unlink()

    def logs(self) -> list[Path]:
        return sorted([*self.directory.glob("*.log*"), *self.directory.glob("*.out")])

    def said(self) -> str:
        """The end of its log and of what it printed."""
        found = []
        for path in self.logs():
            found.append(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(found)

    def _signal(self, number: int) -> None:
        pid = self.pid
        assert pid is not None, f"broker {self.id} is not there:\n{self.said()}"
        os.kill(pid, number)

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + STOP_S
        if self._process is not None:
            self._process.wait(STOP_S)
            self._process = None
        while self.is_running:
            assert time.monotonic() < deadline, f"broker {self.id} does not end:\n{self.said()}"
            time.sleep(0.002)


def _write_until_refused(file: FileIO, data: bytes) -> None:
    with suppress(OSError):
        while True:
            file.write(data)


class Hosting(Protocol):
    """Network namespaces for brokers."""

    def name(self, host: int, /) -> str: ...

    def address(self, host: int, /) -> str: ...

    def remove(self) -> None: ...


class ChaosCluster:
    """Brokers as real processes. `hosting` and `on_moved` are for those who bring a network.

    `on_moved` is called with the seats when their brokers are stopped and not yet started on their
    hosts.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        zookeeper: str | None = None,
        overrides: Sequence[str] = (),
        apart: bool = False,
        small_disks: bool = False,
        secured: bool = False,
        encrypted: bool = False,
        hosting: Hosting | None = None,
        on_moved: Callable[[Mapping[int, Seat]], None] | None = None,
    ) -> None:
        self.directory = directory
        self._hosting = hosting
        self._on_moved = on_moved
        self._brokers = brokers
        self._zookeeper = zookeeper
        self._overrides = overrides
        self._apart = apart
        self._small_disks = small_disks
        self.is_secured = secured
        self.is_encrypted = encrypted
        self._up: subprocess.Popen[bytes] | None = None
        self._network: Hosting | None = None
        self.seats: dict[int, Seat] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(seat.address for seat in self.seats.values())

    @property
    def topic_settings(self) -> dict[str, str]:
        """What topics need beside their replicas: a key, if they are to be encrypted."""
        return {"odradek.encryption.key": _KEY} if self.is_encrypted else {}

    @property
    def _key_file(self) -> str:
        """Not where the data are: a fault of the disk is to leave the keys alone."""
        return f"{self.directory}-keys/keys.json"

    def files_with(self, marker: bytes) -> list[str]:
        """Returns a line for each file of the brokers that holds the marker."""
        paths = [
            path
            for seat in self.seats.values()
            for path in seat.directory.rglob("*")
            if path.is_file() and path.suffix != ".out"
        ]
        assert sum(path.stat().st_size for path in paths) > _LEAST_BYTES, "nothing was written"
        return [f"plain text in {path}" for path in paths if marker in path.read_bytes()]

    @property
    def login(self) -> dict[str, str]:
        """What librdkafka needs to log in, beside the addresses; nothing if it need not."""
        return self._login("librdkafka.properties")

    @property
    def own_login(self) -> dict[str, str]:
        """The same for our own client."""
        return self._login("client.properties")

    def _login(self, file: str) -> dict[str, str]:
        if not self.is_secured:
            return {}
        properties = parse_properties((self.directory / file).read_text())
        del properties["bootstrap.servers"]
        return properties

    def __enter__(self) -> Self:
        try:
            self._start()
            if self._apart:
                self._move_apart()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self) -> None:
        port = free_neighbours(self._brokers)
        self.seats = {
            number: Seat(
                number, self.directory / f"broker-{number}", "127.0.0.1", port + number - 1
            )
            for number in range(1, self._brokers + 1)
        }
        if self.is_secured:
            for seat in self.seats.values():
                seat.authority = str(self.directory / "security" / "ca.crt")
        output = self.directory / "up.out"
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._small_disks:
            for seat in self.seats.values():
                seat.mount_small_disk()
        overrides = list(self._overrides)
        if self.is_encrypted:
            KeyFile(self._key_file, World()).create(_KEY)
            overrides += ["odradek.key.provider=file", f"odradek.key.file={self._key_file}"]
        with output.open("wb") as log:
            self._up = subprocess.Popen(
                [
                    *(odradek(), "up", "--brokers", str(self._brokers), "--port", str(port)),
                    *("--data", str(self.directory), "--until-input-closes"),
                    *(() if self._zookeeper is None else ("--zookeeper", self._zookeeper)),
                    *(("--secure",) if self.is_secured else ()),
                    *(part for one in overrides for part in ("--override", one)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_S
        while _READY not in output.read_text(errors="replace"):
            if self._up.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the cluster did not start:\n{self.said()}")
            time.sleep(0.01)

    def _move_apart(self) -> None:
        self._network = self._hosting or Namespaces(list(self.seats))
        for seat in self.seats.values():
            seat.stop()
            seat.host, seat.port = self._network.address(seat.id), PORT_INSIDE
            seat.namespace = self._network.name(seat.id)
            _set_property(
                seat.directory / "server.properties",
                "listeners",
                f"{'SASL_SSL' if self.is_secured else 'PLAINTEXT'}://{seat.address}",
            )
            if self.is_secured:
                certificates = CertificateDirectory(
                    OsDisk(), SystemClock(), str(self.directory / "security")
                )
                certificates.require(f"broker-{seat.id}", [seat.host], 365, 60)
        if self._on_moved is not None:
            self._on_moved(self.seats)
        for seat in self.seats.values():
            seat.start()

    def cut(self, number: int) -> None:
        """Nothing goes to or from this broker any more; nobody is told."""
        assert isinstance(self._network, Namespaces), "only brokers in namespaces can be cut off"
        self._network.cut(number)

    def heal(self, number: int) -> None:
        assert isinstance(self._network, Namespaces)
        self._network.heal(number)

    def said(self) -> str:
        path = self.directory / "up.out"
        text = path.read_text(errors="replace")[-3000:] if path.exists() else ""
        return "\n".join([text, *(seat.said() for seat in self.seats.values())])

    def problems(self) -> list[str]:
        """Lines in the brokers' logs that should not be there: tracebacks and fatal errors."""
        found = []
        for seat in self.seats.values():
            for path in seat.logs():
                lines = path.read_text(errors="replace").splitlines()
                found += [
                    f"broker {seat.id}, {path.name}: " + " | ".join(lines[index : index + 30][-6:])
                    for index, line in enumerate(lines)
                    if line.startswith("Traceback") or " FATAL " in line
                ]
        return found

    def _end(self) -> None:
        for seat in self.seats.values():
            if seat.is_paused:
                seat.resume()
            if seat.is_ours and seat.is_running:
                seat.stop()
        if self._up is not None:
            assert self._up.stdin is not None
            self._up.stdin.close()
            try:
                self._up.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._up.kill()
                self._up.wait()
                raise AssertionError(f"the cluster did not stop:\n{self.said()}") from None
            self._up = None
        if self._network is not None:
            self._network.remove()
        if self._small_disks:
            for seat in self.seats.values():
                self._keep_logs(seat)
                seat.unmount()

    def _keep_logs(self, seat: Seat) -> None:
        """A small disk is gone when it is unmounted; its logs are of use after that."""
        kept = self.directory / f"logs-{seat.id}"
        kept.mkdir(exist_ok=True)
        for path in seat.logs():
            shutil.copy(path, kept)


def answers(host: str, port: int, authority: str | None = None) -> bool:
    """Whether a broker there answers a Metadata request with a broker in it. With the certificate
    of an `authority` it is asked by TLS and without a log-in, so only for its API versions."""
    body = struct.pack(">hhihi", 3, 1, 7, -1, 0) if authority is None else b"\0\x12" + bytes(8)
    try:
        with socket.create_connection((host, port), 1.0) as plain:
            tls = None if authority is None else ssl.create_default_context(cafile=authority)
            connection = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            with connection:
                connection.sendall(struct.pack(">i", len(body)) + body)
                answer = connection.makefile("rb").read(12)
    except OSError:
        return False
    return len(answer) == 12 and (authority is not None or answer[8:] != bytes(4))


def free_neighbours(count: int) -> int:
    """The first of some ports in a row that are free, below those that connections take."""
    for _ in range(200):
        first = random.randrange(15_000, 31_000)
        held = []
        try:
            for port in range(first, first + count):
                one = socket.socket()
                held.append(one)
                one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise CannotRun("no free ports")


def _set_property(path: Path, name: str, value: str) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, f"{name}={value}", ""]))
