"""Python runs this first in every process that a session's Java starts (see `spark_session`).

`worker_daemon` only helps processes that run tasks. Spark starts the processes that plan by itself,
four to six at the beginning of each stream; this makes them start faster.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_HERE = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _HERE]

try:
    from odradek.spark.unpacked import prefer_unpacked
except ImportError:
    # A Python without our package: it has Spark's package from the zip file only.
    pass
else:
    sys.path[:] = prefer_unpacked(sys.path)

# Runs the `sitecustomize` that Python would have run without this one.
spec = PathFinder.find_spec("sitecustomize", sys.path)
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(module_from_spec(spec))
