"""Every command line of the documents that people learn Kafka from, as it is printed there.

They run as a reader would type them: with the scripts of `odradek shims` in `bin/` and on the PATH,
against a real cluster. Each is accepted, or answered with what to type. Only the address of the
broker is replaced, because the cluster of a test listens elsewhere; `--zookeeper localhost:2181`
stays as it is printed. `documents_command_lines` has the lines.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing import Cluster
from tests.scenarios.documents_command_lines import LINES, TOPIC, Accepted, Answered, Serves

_PLACES = ("broker:6667", "localhost:6667", "localhost:9092")


class Reader:
    """A reader of the documents at a shell, in a directory of a Kafka distribution."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._environment = {
            **os.environ,
            "ODRADEK_BOOTSTRAP": bootstrap,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        }
        self._environment.pop("ODRADEK_DEBUG", None)

    def types(self, line: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        for place in _PLACES:
            line = line.replace(place, self._bootstrap)
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self._directory / ("bin" if line.startswith("./") else ""),
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def serves(self, line: str, expected: Serves) -> None:
        """Types a line, waits for its output, and stops it as a person would."""
        for place in _PLACES:
            line = line.replace(place, self._bootstrap)
        output = self._directory / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["sh", "-c", line],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            _wait_for_output(process, output, expected.shows)
            if expected.stop:
                stopped = _wait_until_stopped(self, expected.stop)
                assert stopped.returncode == 0, stopped.stderr
            else:
                os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert "Traceback" not in output.read_text()


def _wait_for_output(
    process: "subprocess.Popen[bytes]", output: Path, shows: tuple[str, ...]
) -> None:
    deadline_s = time.monotonic() + 60
    while not all(text in output.read_text() for text in shows):
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline_s, output.read_text()
        time.sleep(0.05)


def _wait_until_stopped(reader: Reader, line: str) -> "subprocess.CompletedProcess[str]":
    """Types the line that stops a server until it finds it: the JVM has to start first."""
    deadline_s = time.monotonic() + 60
    while True:
        done = reader.types(line)
        if done.returncode == 0 or time.monotonic() > deadline_s:
            return done


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    directory = tmp_path_factory.mktemp("a reader")
    shims = [sys.executable, "-m", "odradek.cli", "shims", str(directory / "bin")]
    subprocess.run(shims, check=True, capture_output=True, timeout=60)
    command = directory / "bin" / "odradek"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m odradek.cli "$@"\n')
    command.chmod(0o755)
    (directory / "topics.json").write_text('{"version":1,"topics":[{"topic":"T"}]}')
    (directory / "plan.json").write_text(
        '{"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[2,3,1]}]}'
    )
    (directory / "partitions.json").write_text('{"partitions":[{"topic":"T","partition":0}]}')
    (directory / "client.properties").write_text("client.id=reader\n")
    (directory / "ssl.properties").write_text(
        "security.protocol=SSL\nssl.truststore.location=client.jks\nssl.truststore.password=secret\n"
    )
    (directory / "config").mkdir()
    (directory / "config" / "server0.properties").write_text(
        f"broker.id=0\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={directory / 'kafka-logs-0'}\n"
    )
    (directory / "config" / "zookeeper.properties").write_text(
        f"dataDir={directory / 'zookeeper'}\nclientPort={_free_port()}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    settings = {
        "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Cluster(brokers=3, data=str(directory / "data"), settings=settings) as cluster:
        reader = Reader(directory, cluster.bootstrap)
        create = f"odradek topics --create --topic {TOPIC} --partitions 2"
        assert reader.types(create).returncode == 0
        read = f"odradek console-consumer --topic {TOPIC} --from-beginning --max-messages 1"
        produce = f"echo quack | odradek console-producer --topic {TOPIC}"
        done = reader.types(f"{produce} && {read} --group kittys_junk_shop")
        assert done.returncode == 0, done.stderr
        roll = "odradek topics --create --topic rolled --partitions 1 --config segment.bytes=100"
        fill = "seq 100 | odradek console-producer --topic rolled --batch-size 1"
        assert reader.types(f"{roll} && {fill}").returncode == 0
        yield reader


@pytest.mark.xdist_group("documents")
@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_a_line_is_accepted_or_answered(
    reader: Reader, line: str, expected: Accepted | Serves | Answered
) -> None:
    if isinstance(expected, Serves):
        reader.serves(line, expected)
        return
    stdin = expected.stdin if isinstance(expected, Accepted) else ""
    done = reader.types(line, stdin)
    if isinstance(expected, Accepted):
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert expected.shows in done.stdout + done.stderr
    else:
        assert done.returncode in {1, 2}, (done.stdout, done.stderr)
        assert expected.words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
