"""A run of a tap: a process of its own, whose lines are read ahead in a thread.

The process gets little of the worker's environment: a tap is somebody else's program, and the
worker's environment may have secrets. Its configuration, which may have some too, is in files that
only this user can read, and that end with the run.
"""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final

from odradek.connect.errors import DataError
from odradek.connect.singer.messages import Message, parse

_PASSED_ON: Final = (
    "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_READ_AHEAD: Final = 10_000
_LAST_LINES: Final = 5
_DISCOVERY_S: Final = 300
_END_S: Final = 5.0


def discovered(program: str, config: Any) -> Any:
    """Returns the catalog that the tap makes of its own; None if it makes none."""
    with tempfile.TemporaryDirectory(prefix="odradek-tap-") as directory:
        path = _written(directory, "config.json", config)
        try:
            done = subprocess.run(  # noqa: S603 - a program that the worker's file names
                [program, "--config", path, "--discover"],
                capture_output=True, env=_environment(), timeout=_DISCOVERY_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DataError(f"the tap makes no catalog within {_DISCOVERY_S} s") from None
        except OSError as error:
            raise DataError(f"{program} cannot be run: {error.strerror}") from None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return None
    return found if done.returncode == 0 and isinstance(found, dict) else None


class TapRun:
    def __init__(self, program: str, config: Any, catalog: Any, state: Any) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="odradek-tap-")
        where = self._directory.name
        command = [program, "--config", _written(where, "config.json", config)]
        if catalog is not None:
            command += ["--catalog", _written(where, "catalog.json", catalog)]
        if state is not None:
            command += ["--state", _written(where, "state.json", state)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - as above
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self._directory.cleanup()
            raise DataError(f"{program} cannot be run: {error.strerror}") from None
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._lines: queue.Queue[bytes | None] = queue.Queue(_READ_AHEAD)
        self._is_closed = False
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._read_lines, self._read_errors)
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout_s: float) -> Message | None:
        """Returns the next message; None if there is none yet. Raises `EOFError` at the end of a
        run, and `DataError` if the tap failed."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            status = self._process.wait()
            self._threads[1].join(_END_S)
            if status != 0:
                said = " ".join(self._said) or "it said nothing"
                raise DataError(f"the tap ended with status {status}: {said}")
            raise EOFError
        return parse(line)

    def close(self) -> None:
        self._is_closed = True
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        for thread in self._threads:
            thread.join(_END_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._directory.cleanup()

    def _signal(self, number: int) -> None:
        """Sends a signal to the tap and to what it has started: they are a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip():
                self._put(line)
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        while not self._is_closed:
            try:
                self._lines.put(line, timeout=0.2)
            except queue.Full:
                continue
            return

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.decode("utf-8", "replace").strip())


def _written(directory: str, name: str, content: Any) -> str:
    path = os.path.join(directory, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    return path


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
