"""The process that Spark forks the Python workers of a lane from, with all modules loaded.

`odradek.spark.worker_daemon` is the one for queries that decode records. It loads compiled loops,
which a lane's query does not need, and which would be the largest part of its Python memory.
"""

import sys
from importlib import import_module
from typing import Final

from odradek.spark import worker_daemon
from odradek.spark.unpacked import prefer_unpacked

_NEEDED: Final = ("pyspark.worker", "odradek.spark.turns.lane_source")


def main() -> None:
    sys.path[:] = prefer_unpacked(sys.path)
    for name in (*sys.argv[1:2], *_NEEDED):
        import_module(name)
    worker_daemon.serve()


if __name__ == "__main__":
    main()
