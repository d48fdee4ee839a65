"""Lets small batches be staged like large ones (`odradek.storage.staging`) in half of the runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.storage.staged_batch import STAGING_SIZES
from simulation.world import Simulation


@contextmanager
def large_from(large_bytes: int, chunk_bytes: int) -> Iterator[None]:
    """Stages batches above `large_bytes`, and writes them in chunks of `chunk_bytes`."""
    previous = STAGING_SIZES.large_bytes, STAGING_SIZES.chunk_bytes
    STAGING_SIZES.large_bytes, STAGING_SIZES.chunk_bytes = large_bytes, chunk_bytes
    try:
        yield
    finally:
        STAGING_SIZES.large_bytes, STAGING_SIZES.chunk_bytes = previous


@contextmanager
def staged_by_seed(simulation: Simulation) -> Iterator[None]:
    """Lets the seed decide from how many bytes on batches are written in pieces, and in which."""
    random = simulation.random("stages")
    if random.random() < 0.5:
        yield
        return
    with large_from(random.choice((0, 300, 1000)), random.choice((100, 1000))):
        yield
