"""Which copy of Spark's own Python package a process takes.

Spark puts a zip file of it first on the path of every Python it starts. There is no bytecode in it:
a process compiles all it imports, for half a second. The installed package next to it is the same.
Nothing is imported here, for it runs before everything else.
"""

import os
from typing import Final

_ZIP: Final = "pyspark.zip"


def prefer_unpacked(path: list[str]) -> list[str]:
    """The search path without Spark's zip file, if the package it holds is installed as well.

    It must be the same one: the zip file lies in the package, at python/lib/pyspark.zip.
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
