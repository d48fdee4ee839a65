"""What the engine on Spark needs on this machine. Importing this is cheap."""

from odradek.connect.errors import ConnectError
from odradek.spark.prerequisites import SparkMissing, require_spark


def require() -> None:
    """Raises `ConnectError`, which says in a line what to install, or what to do without."""
    try:
        require_spark()
    except SparkMissing as missing:
        raise ConnectError(
            f"{missing}. Or set odradek.engine=process in the worker's file: connectors then run in"
            " the worker itself, without Spark"
        ) from missing
