"""A real broker for tests, in pytest and outside it.

    from odradek.testing import Cluster

    with Cluster() as cluster:
        topic = cluster.create_topic(partitions=3)
        producer = SomeKafkaClient(bootstrap_servers=cluster.bootstrap)

pytest users need nothing but the fixtures `odradek_cluster` and `odradek_topic`. This package
is loaded in every pytest run, so it imports nothing until `Cluster` is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster, ClusterFailed

__all__ = ["Cluster", "ClusterFailed"]

if not TYPE_CHECKING:  # with it, type checkers would take any name for right

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek.testing import cluster  # noqa: PLC0415 - only when it is used

        return getattr(cluster, name)
