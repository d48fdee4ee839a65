"""A client that runs in a process of its own: Java, or another version of a Python client.

The peer reads commands on standard input and answers on standard output, one line each:

    produce BOOTSTRAP TOPIC CODEC plain|idempotent COUNT    then COUNT rows, one a line
    consume BOOTSTRAP TOPIC COUNT                           answers COUNT lines "row ..."

and ends each answer with "done" or "error WHY". A row is its timestamp, key, value, then name and
value of each header, separated by blanks, in base64; "-" is null. All go to partition 0.
"""

import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from benchmarks.apache_kafka import SHORT_TOOL_JVM_FLAGS, java_program, javac_program
from tests.conformance.rows import Row

JAVA_SOURCE = Path(__file__).resolve().parent.parent / "java" / "ClientPeer.java"


def _word(data: bytes | None) -> str:
    return "-" if data is None else b64encode(data).decode()


def _bytes(word: str) -> bytes | None:
    return None if word == "-" else b64decode(word)


def row_to_line(row: Row) -> str:
    words = [str(row.timestamp_ms), _word(row.key), _word(row.value)]
    for name, value in row.headers:
        words += [_word(name.encode()), _word(value)]
    return " ".join(words)


def line_to_row(line: str) -> Row:
    timestamp, key, value, *rest = line.split(" ")
    headers = tuple(
        (b64decode(name).decode(), _bytes(header))
        for name, header in zip(rest[::2], rest[1::2], strict=True)
    )
    return Row(_bytes(key), _bytes(value), headers, int(timestamp))


class Peer:
    """The test's end of the conversation."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def promise(self, row: Row) -> Row:
        return row

    def produce(
        self,
        bootstrap: str,
        topic: str,
        codec: str,
        rows: Sequence[Row],
        *,
        idempotent: bool = True,
    ) -> None:
        mode = "idempotent" if idempotent else "plain"
        lines = [f"produce {bootstrap} {topic} {codec} {mode} {len(rows)}"]
        self._ask([*lines, *map(row_to_line, rows)])

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return self._ask([f"consume {bootstrap} {topic} {count}"])

    def _ask(self, lines: Sequence[str]) -> list[Row]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n".join(lines) + "\n")
        self._process.stdin.flush()
        rows = []
        for answer in self._process.stdout:
            word, _, rest = answer.rstrip("\n").partition(" ")
            if word == "row":
                rows.append(line_to_row(rest))
            elif word == "done":
                return rows
            elif word == "error":
                raise RuntimeError(f"{self.name}: {rest}")
        raise RuntimeError(f"{self.name} ended before it answered {lines[0]!r}")


def java_peer(libraries: Path, name: str, properties: str | None = None) -> Peer:
    """A Java client with the kafka-clients of that directory; the launcher compiles the source.
    `properties` names a file with a log-in."""
    javac_program()  # a runtime alone has no compiler to launch a source with
    flags = [*SHORT_TOOL_JVM_FLAGS, "-cp", f"{libraries}/*"]
    environment = None if properties is None else {**os.environ, "CLIENT_PROPERTIES": properties}
    return Peer(name, [java_program(), *flags, str(JAVA_SOURCE)], environment)
