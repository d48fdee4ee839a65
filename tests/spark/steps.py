"""Lets a test act at the steps of an exactly-once write, in the worker process that runs the task.

Production code has no hook for this: `observed` replaces the producer that `exactly_once` uses
with one that reports each step when the call that makes it has returned.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from odradek.client.group.offsets import OffsetAndMetadata
from odradek.protocol.types import TopicPartition
from simulation.sink_steps import Step


@contextmanager
def observed(reached: Callable[[Step], None]) -> Iterator[None]:
    """Calls `reached` after each step of the writes that this process makes meanwhile."""
    # numba takes half a second to load, so only processes that write import this.
    from odradek.spark.arrow.producer import BatchProducer

    class ObservedProducer(BatchProducer):
        def init_transactions(self) -> None:
            super().init_transactions()
            reached(Step.INITIALISED)

        def send_offsets(
            self, offsets: dict[TopicPartition, OffsetAndMetadata], group_id: str
        ) -> None:
            super().send_offsets(offsets, group_id)
            reached(Step.WRITTEN)

        def commit_transaction(self) -> None:
            super().commit_transaction()
            reached(Step.COMMITTED)

    with patch("odradek.spark.arrow.producer.BatchProducer", ObservedProducer):
        yield
