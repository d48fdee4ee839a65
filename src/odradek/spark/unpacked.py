"""Chooses which copy of Spark's Python package a process imports.

Spark puts a zip file of its package first on the path of every Python that it starts. The zip file
has no bytecode, so each process spends half a second compiling what it imports. The installed
package next to it is the same code with bytecode. This module imports almost nothing, because it
runs before everything else.
"""

import os
from typing import Final

_ZIP: Final = "pyspark.zip"


def prefer_unpacked(path: list[str]) -> list[str]:
    """Returns the search path without Spark's zip file, if the same package is installed as well.

    It is the same package if the zip file lies inside it, at python/lib/pyspark.zip.
    """
    kept = []
    for entry in path:
        package = os.path.dirname(os.path.dirname(os.path.dirname(entry)))
        is_own_zip = (
            os.path.basename(entry) == _ZIP
            and os.path.basename(package) == "pyspark"
            and os.path.exists(os.path.join(package, "worker.py"))
            and os.path.dirname(package) in path
        )
        if not is_own_zip:
            kept.append(entry)
    return kept
