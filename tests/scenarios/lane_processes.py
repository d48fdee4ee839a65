"""The processes of work that Spark gives turns to, by their kind: for scenarios that kill them."""

from typing import Final

import psutil

COMMANDS: Final = {
    "zygote": "odradek.spark.turns.zygote",
    "host": "odradek.spark.turns.zygote",
    "driver": "odradek.spark.turns.driver",
    "java": "org.apache.spark",
    "python": "odradek.spark.turns.spark_daemon",
}
"""What stands in the command line of each kind, besides the program that has the tasks. `host` is
the process of a task, and `python` one of Spark's Python workers."""


def processes_of(pid: int, kind: str, command: str | None = None) -> list[psutil.Process]:
    """Returns the processes of a kind among those that `pid` has started, and itself. `command`
    says what stands in their command line, for a kind that is not in `COMMANDS`."""
    wanted = COMMANDS[kind] if command is None else command
    found = []
    program = psutil.Process(pid)
    for process in [program, *program.children(recursive=True)]:
        try:
            line = " ".join(process.cmdline())
            parent = " ".join(process.parent().cmdline())
        except psutil.Error:
            continue
        # Java's command line has the names of Python's modules too.
        of_kind = wanted in line and ("java" in process.name()) == (kind == "java")
        # A task's process has the command line of the one that it was forked from.
        if of_kind and kind in {"host", "zygote"}:
            of_kind = (wanted in parent) == (kind == "host")
        if of_kind:
            found.append(process)
    return found
