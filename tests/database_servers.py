"""Real database servers for tests: PostgreSQL and MariaDB on the loopback interface.

    with running_postgres(need(postgres_programs)) as server:
        database = server.new_database()

Both log changes as change data capture needs them: logical decoding, and a binary log of rows with
their metadata. Neither waits for the disk, so what they lose with the machine's power does not
matter here. `server.crash()` ends a server as a killed one would end, `server.start()` starts it on
the same files and port. A server refuses to run as root, so root lends it a user.
"""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.broker_process import ToolMissing

_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
# Below the ports that the kernel gives to clients, so that no client holds one.
_PORTS: Final = range(22500, 23000)
_POSTGRES_CONF: Final = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
wal_sender_timeout = 10s
shared_buffers = 32MB
fsync = off
synchronous_commit = off
timezone = 'UTC'
"""
_MARIADB_OPTIONS: Final = (
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-strict-mode=ON",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=32M",
    "--default-time-zone=+00:00",
    "--character-set-server=utf8mb4",
)


class Database(NamedTuple):
    """A database that is empty at first, and who may do everything in it."""

    host: str
    port: int
    name: str
    user: str
    password: str


class DatabaseServer(ABC):
    """A server with files and a port of its own."""

    def __init__(self, directory: Path, owner: pwd.struct_passwd | None) -> None:
        self.directory = directory
        self.port = _free_port()
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def initialize(self) -> None:
        """Makes the files of the server."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]: ...

    @abstractmethod
    def new_database(self) -> Database: ...

    @abstractmethod
    def _is_ready(self) -> bool: ...

    def start(self) -> None:
        """Starts the server, and returns when it answers."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in self._command()],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                user=self._user,
            )
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not self._is_ready():
            assert self._process.poll() is None, f"the server has ended:\n{self._log()}"
            assert time.monotonic() < deadline_s, f"the server does not answer:\n{self._log()}"
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the server in good order, though clients are still connected."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Ends the server at once: what it has not written to its log is lost."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_TIMEOUT_S)

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_START_TIMEOUT_S,
            cwd=self.directory,
            user=self._user,
        )
        assert done.returncode == 0, done.stdout.decode(errors="replace")

    @property
    def _user(self) -> int | None:
        return None if self._owner is None else self._owner.pw_uid

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-3000:]


class Postgres(DatabaseServer):
    def __init__(self, programs: Path, directory: Path, owner: pwd.struct_passwd | None) -> None:
        super().__init__(directory, owner)
        self._programs = programs
        self._data = directory / "data"

    def initialize(self) -> None:
        self._run(
            self._programs / "initdb", "-D", self._data, "-A", "trust", "-U", "postgres",
            "--locale=C.UTF-8", "-E", "UTF8", "--no-sync",
        )  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(f"{_POSTGRES_CONF}port = {self.port}\n")

    def _command(self) -> Sequence[str | Path]:
        return self._programs / "postgres", "-D", self._data

    def new_database(self) -> Database:
        import psycopg

        found = Database("127.0.0.1", self.port, _name(), "postgres", "")
        with psycopg.connect(self._dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {found.name}")
        return found

    def _is_ready(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self._dsn(), connect_timeout=5).close()
            return True
        return False

    def _dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"


class MariaDb(DatabaseServer):
    def __init__(self, programs: Path, directory: Path, owner: pwd.struct_passwd | None) -> None:
        super().__init__(directory, owner)
        self._server = programs
        self._data = directory / "data"

    def initialize(self) -> None:
        self._run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self._data}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip

    def _command(self) -> Sequence[str | Path]:
        return (
            self._server,
            "--no-defaults",
            f"--datadir={self._data}",
            f"--port={self.port}",
            f"--socket={self.directory / 'socket'}",
            *_MARIADB_OPTIONS,
        )

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        self._end(signal.SIGKILL)

    def new_database(self) -> Database:
        import pymysql

        found = Database("127.0.0.1", self.port, _name(), "root", "")
        with pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection:
            connection.cursor().execute(f"CREATE DATABASE {found.name}")
        return found

    def _is_ready(self) -> bool:
        import pymysql

        with contextlib.suppress(pymysql.err.OperationalError):
            pymysql.connect(host="127.0.0.1", port=self.port, user="root").close()
            return True
        return False


def postgres_programs() -> Path:
    """Where the programs of the newest PostgreSQL are."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda program: int(program.parent.parent.name),
    )
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    if elsewhere is None:
        raise ToolMissing("PostgreSQL is missing; on Debian: apt-get install postgresql")
    return Path(elsewhere).resolve().parent


def mariadb_program() -> Path:
    found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None or shutil.which("mariadb-install-db") is None:
        raise ToolMissing("MariaDB is missing; on Debian: apt-get install mariadb-server")
    return Path(found)


@contextlib.contextmanager
def running_postgres(programs: Path) -> Iterator[Postgres]:
    with _directory("postgres") as (directory, owner):
        server = Postgres(programs, directory, owner)
        with _running(server):
            yield server


@contextlib.contextmanager
def running_mariadb(program: Path) -> Iterator[MariaDb]:
    with _directory("mysql") as (directory, owner):
        server = MariaDb(program, directory, owner)
        with _running(server):
            yield server


@contextlib.contextmanager
def _running(server: DatabaseServer) -> Iterator[None]:
    try:
        server.initialize()
        server.start()
        yield
    finally:
        server.crash()


@contextlib.contextmanager
def _directory(user: str) -> Iterator[tuple[Path, pwd.struct_passwd | None]]:
    """Makes a directory for a server, and says whom it runs as; None for whoever runs the tests.
    Those of pytest are open to root alone if root runs it."""
    owner = pwd.getpwnam(user) if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix=f"odradek-{user}-") as made:
        directory = Path(made)
        if owner is not None:
            os.chown(directory, owner.pw_uid, owner.pw_gid)
        yield directory, owner


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port is free among {_PORTS}")


def _name() -> str:
    return f"db_{uuid.uuid4().hex[:12]}"
