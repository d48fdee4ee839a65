"""The process that Spark forks the Python workers of tasks from, with all modules loaded.

Spark's own daemon imports nothing before it forks: each worker then imports Spark from a zip file,
which has no bytecode (0.8 s where the installed package takes 0.2), our modules with numba (0.6 s),
and reads the compiled loops (0.7 s). This daemon loads everything once and forks workers that are
ready. Spark uses it for tasks (`spark.python.daemon.module`); processes that plan are forked from
Spark's own daemons.

Invariant: no other Python thread runs when a worker is forked, because locks that it holds would
stay locked in the child; `_refuse_threads` checks this. numpy and pyarrow restart their own threads
after a fork.
"""

import gc
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from odradek.spark.unpacked import prefer_unpacked

Worker = Callable[[socket.socket, bool], int]

# Only Linux has this option.
_QUICK_ACKNOWLEDGEMENT: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_TASKS: Final = "pyspark.worker"
_NEEDED_BY_TASKS: Final = ("odradek.spark.arrow.ranges", "odradek.spark.arrow.producer")
# Set by `session` if a person sees what is written to standard error.
ANNOUNCES: Final = "ODRADEK_SPARK_ANNOUNCES"
COMPILING: Final = (
    "odradek: compiling the loops that read and write records; only the first query on a machine"
    " waits for this, 5 seconds or more ...\n"
)
_DAEMONS: Final = ("pyspark.daemon", "odradek.spark.worker_daemon")


def _load(worker_module: str) -> None:
    for name in (worker_module, "odradek.spark.source", *_NEEDED_BY_TASKS):
        import_module(name)
    loading = import_module("odradek.spark.arrow.loading")
    if os.environ.get(ANNOUNCES) and not loading.are_kernels_compiled():
        # Java passes it on to the terminal.
        sys.stderr.write(COMPILING)
        sys.stderr.flush()
    loading.load_kernels()


@cache
def freeze_loaded_objects() -> None:
    """Excludes all objects that exist now from garbage collection, once in each process.

    Spark's workers run a full collection after each task and each plan. Over all loaded modules it
    took 30 ms of CPU for each micro-batch in each worker.
    """
    if _is_forked_by_spark():
        gc.collect()
        gc.freeze()


def _is_forked_by_spark() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name in _DAEMONS


def _refuse_threads() -> None:
    running = [thread.name for thread in threading.enumerate()]
    if len(running) > 1:
        raise RuntimeError(f"workers cannot be forked while threads run: {', '.join(running)}")


def without_delayed_acks(worker: Worker) -> Worker:
    """Wraps `worker` so that it serves tasks over a connection without delayed acknowledgements.

    Java sends a task in two small writes. Its kernel holds the second one back until ours has
    acknowledged the first (Nagle's algorithm), and ours delays the acknowledgement by up to 40 ms,
    so the task would begin 40 ms late. Linux resets TCP_QUICKACK, so it is set again before each
    task.
    """

    def serve(connection: socket.socket, authenticated: bool) -> int:
        if connection.family in {socket.AF_INET, socket.AF_INET6}:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if _QUICK_ACKNOWLEDGEMENT is not None:
                connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACKNOWLEDGEMENT, 1)
        return worker(connection, authenticated)

    return serve


def main() -> None:
    sys.path[:] = prefer_unpacked(sys.path)
    worker_module = sys.argv[1] if len(sys.argv) > 1 else _TASKS
    if find_spec("numba") is not None:
        _load(worker_module)
    serve()


def serve() -> None:
    """Forks workers until Java ends. Everything that they need has been loaded."""
    _refuse_threads()
    gc.collect()
    gc.freeze()
    daemon: Any = import_module("pyspark.daemon")
    daemon.worker = without_delayed_acks(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
