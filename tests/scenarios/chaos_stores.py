"""Where a cluster under chaos keeps its metadata: with itself, or in a ZooKeeper ensemble."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def store(kind: str, directory: Path) -> Iterator[str | None]:
    """The address of an ensemble of three of which one is dead; None for a store of our own."""
    if kind == "embedded":
        yield None
        return
    from tests.unit.metadata.zookeeper_servers import (
        Ensemble,
        zookeeper_jars,
    )

    with Ensemble(zookeeper_jars(), directory, size=3) as ensemble:
        ensemble.servers[0].kill()
        yield f"{ensemble.address}/odradek"
