"""The rows of a lane's query: what a task has done in its turn."""

import json
import socket
from typing import Final

Row = tuple[str, str, int]
"""The task, its state, and how many records it has written."""

RUNNING: Final = "RUNNING"
STARTING: Final = "STARTING"
SILENT: Final = "SILENT"


def silent(task: str) -> Row:
    return task, SILENT, 0


def answered(task: str, connection: socket.socket) -> Row:
    """Reads the answer of a task, a line that has come, and closes the connection."""
    with connection, connection.makefile("rb") as answers:
        try:
            line = answers.readline()
        except OSError:
            line = b""
    if not line.endswith(b"\n"):
        return silent(task)
    answer = json.loads(line)
    return task, RUNNING if answer["running"] else STARTING, int(answer["records"])
