"""How a stream is brought to rest between two batches.

Spark's `query.stop()` interrupts the batch that runs. A pipeline that is asked to end makes a
file instead; sources that see it name no new records, so that the query finishes its batch, finds
nothing more to do, and can be stopped without tearing anything. The sources run in processes of
their own on the driver's machine and hear of the file by an environment variable.
"""

import os
from typing import Final

HALT_FILE: Final = "ODRADEK_HALT_FILE"


def is_halting() -> bool:
    path = os.environ.get(HALT_FILE)
    return path is not None and os.path.exists(path)
