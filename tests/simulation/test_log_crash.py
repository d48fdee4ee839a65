"""Logs on the simulated disk, through kills and power cuts."""

import pytest

from simulation import run
from simulation.scenarios.storage import storage


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_logs_keep_what_was_flushed(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        assert "batches appended" in run(storage, seed).value
