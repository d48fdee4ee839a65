"""Run by every Python that a session's Java starts, before anything else (`spark_session`).

Processes that plan are started by Spark with a daemon of its own, one for each kind, so that
`worker_daemon` cannot help them: four to six at the beginning of each stream.
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
    # Another Python than ours: it has Spark's package from the zip file only.
    pass
else:
    sys.path[:] = prefer_unpacked(sys.path)

# Whatever module of this name would have been run without us.
found = PathFinder.find_spec("sitecustomize", sys.path)
if found is not None and found.loader is not None:
    found.loader.exec_module(module_from_spec(found))
