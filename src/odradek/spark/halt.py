"""How a stream is stopped between two batches.

Spark's `query.stop()` interrupts the batch that runs. A pipeline that is asked to end creates a
file instead. While the file exists, sources report no new offsets: the query finishes its batch,
finds no new data, and can be stopped without interrupting a batch. The sources run in separate
processes on the driver's machine; an environment variable gives them the file's path.
"""

import os
from typing import Final

HALT_FILE: Final = "ODRADEK_HALT_FILE"


def is_halting() -> bool:
    path = os.environ.get(HALT_FILE)
    return path is not None and os.path.exists(path)
