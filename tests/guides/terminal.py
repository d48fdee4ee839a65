"""A shell in a directory and on ports of its own, in which the commands of a page are typed.

Pages use Kafka's ports: 9092 and the next ones for brokers, 2181 for ZooKeeper. Here they are
replaced by free ones in what is typed, and back in what is printed. The tools get the address of
the first broker from ODRADEK_BOOTSTRAP, and `odradek up` its port from a script in front of it. The
directory is called /home/ada in pages.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 60
_HOME: Final = "/home/ada"
_BROKER_PORTS: Final = range(9092, 9100)
_ZOOKEEPER_PORT: Final = 2181
# The console, the schema registry, the REST proxy, Connect and SQL.
_SERVICE_PORTS: Final = (8080, 8081, 8082, 8083, 8088)
_CONSOLE_PORT: Final = 8080
_REGISTRY_PORT: Final = 8081
_REST_PORT: Final = 8082
_CONNECT_PORT: Final = 8083
_SQL_PORT: Final = 8088
_OTHER_PORTS: Final = (_ZOOKEEPER_PORT, *_SERVICE_PORTS)
# Below the ports that the operating system gives to connections.
_CANDIDATES: Final = range(20000, 32000, 16)

_ODRADEK: Final = """\
#!/bin/sh
case "$1 $2" in
  "up "*|"local start"*)
    case " $* " in *" --port "*) ;; *) set -- "$@" --port {port} ;; esac
    case " $* " in *" --platform "*)
      set -- "$@" --registry-port {registry} --rest-port {rest} --connect-port {connect}
      set -- "$@" --console-port {console} --sql-port {sql} ;;
    esac ;;
  "console "*)
    set -- "$@" --override bootstrap.servers=127.0.0.1:{port}
    set -- "$@" --override listeners=http://127.0.0.1:{console} ;;
  "rest-start "*)
    case " $* " in *listeners=*) ;; *)
      set -- "$@" --override bootstrap.servers=127.0.0.1:{port}
      set -- "$@" --override listeners=http://127.0.0.1:{rest} ;;
    esac ;;
esac
exec {python} -W error -m odradek.cli "$@"
"""
# A command is typed where the one before left the shell: its directory and its variables.
_TYPED: Final = """\
. {state}/variables; cd "$(cat {state}/directory)"
{command}
"""
# Only for commands in the foreground: one in the background ends while others are typed.
_REMEMBERED: Final = """\
code=$?; pwd > {state}/directory; export -p > {state}/variables; exit $code
"""


@dataclass
class Running:
    """A command in the background, and the file that has its output."""

    process: "subprocess.Popen[bytes]"
    output: Path

    def printed(self) -> str:
        return self.output.read_text()


class Terminal:
    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self._state = directory / "state"
        self._running: list[Running] = []
        first = _free_ports()
        self._ports = {old: first + number for number, old in enumerate(_BROKER_PORTS)}
        for number, old in enumerate(_OTHER_PORTS, len(_BROKER_PORTS)):
            self._ports[old] = first + number
        self._make_directories(directory / "bin")

    def _make_directories(self, programs: Path) -> None:
        for each in (self.home, self._state, programs):
            each.mkdir(parents=True)
        for shared in ("examples", "config", "docs"):
            (self.home / shared).symlink_to(ROOT / shared)
        script = _ODRADEK.format(
            port=self._ports[9092],
            registry=self._ports[_REGISTRY_PORT],
            rest=self._ports[_REST_PORT],
            console=self._ports[_CONSOLE_PORT],
            connect=self._ports[_CONNECT_PORT],
            sql=self._ports[_SQL_PORT],
            python=shlex.quote(sys.executable),
        )
        (programs / "odradek").write_text(script)
        (programs / "odradek").chmod(0o755)
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python").chmod(0o755)
        (self._state / "directory").write_text(str(self.home))
        (self._state / "variables").write_text("")
        # A child must find what the test finds: packages of the environment that runs it.
        self._environment = {
            **{name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ},
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "ODRADEK_BOOTSTRAP": f"127.0.0.1:{self._ports[9092]}",
            "ODRADEK_CONNECT": f"http://127.0.0.1:{self._ports[_CONNECT_PORT]}",
            "ODRADEK_CONFIG": os.devnull,
            "COLUMNS": "100",
            "TZ": "UTC",
        }

    def here(self, text: str) -> str:
        """The text of a page with the ports and the directory of this terminal."""
        for old, new in self._ports.items():
            text = re.sub(rf"(?<![\d.]){old}(?!\d)", str(new), text)
        return text.replace(_HOME, str(self.home))

    def there(self, text: str) -> str:
        """What was printed, with the ports and the directory that pages show."""
        for old, new in self._ports.items():
            text = re.sub(rf"(?<!\d){new}(?!\d)", str(old), text)
        return text.replace(str(self.home), _HOME)

    def write_file(self, name: str, content: str) -> None:
        (self.home / name).write_text(self.here(content))

    def run(self, command: str) -> tuple[int, str]:
        """Types a command and waits until it ends; returns its exit status and its output."""
        process = self._start(command, self._state / "output", _TYPED + _REMEMBERED)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            _end(process, signal.SIGKILL)
            raise AssertionError(f"no end after {DEADLINE_S} s: {command}") from None
        return process.returncode, self.there((self._state / "output").read_text())

    def run_in_background(self, command: str, is_ready: Callable[[str], bool]) -> str:
        """Types a command that goes on; returns its output as soon as that is as expected."""
        output = self._state / f"output-{len(self._running)}"
        running = Running(self._start(command, output, _TYPED), output)
        self._running.append(running)
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and running.process.poll() is None:
            if is_ready(self.there(running.printed())):
                break
            time.sleep(0.02)
        return self.there(running.printed())

    def interrupt(self) -> tuple[int, str]:
        """Presses Ctrl-C for the newest command in the background, and waits until it ends."""
        running = self._running.pop()
        _end(running.process, signal.SIGINT)
        return running.process.returncode, self.there(running.printed())

    def close(self) -> None:
        """Ends everything that the page started, also brokers of `odradek local start`."""
        for running in self._running:
            with suppress(AssertionError):
                _end(running.process, signal.SIGTERM)
        for file in self.home.rglob("*.pid"):
            with suppress(ValueError, OSError):
                number = int(file.read_text())
                # A broker that was killed leaves its file, and its id may be another program's now.
                environment = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
                if f"HOME={self.home}".encode() in environment:
                    os.kill(number, signal.SIGKILL)

    def _start(self, command: str, output: Path, script: str) -> "subprocess.Popen[bytes]":
        typed = script.format(state=shlex.quote(str(self._state)), command=self.here(command))
        with output.open("wb") as file:
            return subprocess.Popen(
                ["bash", "-c", typed],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _end(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Sends a signal to a command and its children, as a terminal does, and waits for its end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    try:
        process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise AssertionError(f"no end {DEADLINE_S} s after {number.name}") from None


def _free_ports() -> int:
    """The first of as many free ports in a row as a page may use."""
    start = os.getpid() % len(_CANDIDATES)
    needed = len(_BROKER_PORTS) + len(_OTHER_PORTS)
    for number in range(len(_CANDIDATES)):
        first = _CANDIDATES[(start + number) % len(_CANDIDATES)]
        if all(_is_free(first + offset) for offset in range(needed)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
