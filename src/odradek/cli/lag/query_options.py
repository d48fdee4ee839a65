"""The flags by which `odradek lag` and `odradek top` find Spark queries."""

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.ops.lag.queries import Queries

_PIPELINES: Final = "./odradek-pipelines"


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark queries")
    group.add_argument(
        "--pipelines",
        metavar="DIR",
        help="the directory of `odradek pipeline`, whose queries are shown beside groups"
        f" (default: {_PIPELINES}, if it exists)",
    )
    group.add_argument(
        "--checkpoint",
        metavar="[NAME=]DIR",
        action="append",
        default=[],
        help="the checkpoint of another Spark query, on a disk of this machine; may be repeated",
    )


def queries_of(arguments: argparse.Namespace) -> "Queries | None":
    """Returns the queries that the flags mean; None if there are none."""
    from odradek.tools.failures import CommandFailed, UsageError
    from odradek.world.disk import OsDisk

    disk = OsDisk()
    directory = arguments.pipelines
    if directory is not None and not disk.exists(directory):
        raise CommandFailed(
            f"there is no directory {directory}; --pipelines is the --data of `odradek pipeline`"
        )
    if directory is None and disk.exists(_PIPELINES):
        directory = _PIPELINES
    checkpoints: dict[str, str] = {}
    for given in arguments.checkpoint:
        name, equals, path = given.rpartition("=")
        path = path.rstrip("/")
        name = name if equals else path.rpartition("/")[2]
        if not name or not path:
            raise UsageError(f"--checkpoint {given} is not NAME=DIR")
        if name in checkpoints:
            raise UsageError(f"two checkpoints are called {name}; name them, as in NAME=DIR")
        if not disk.exists(path):
            raise CommandFailed(f"there is no checkpoint {path} on this machine")
        checkpoints[name] = path
    if directory is None and not checkpoints:
        return None
    # Not before: most people have no queries.
    from odradek.ops.lag.queries import Queries

    return Queries(disk, directory, checkpoints)
