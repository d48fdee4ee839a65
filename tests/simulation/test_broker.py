"""A broker and its clients through bad days, in virtual time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import run
from simulation.scenarios.broker import broker


@pytest.mark.parametrize("first_seed", range(1, 25, 4))
def test_a_bad_day_loses_doubles_and_reorders_nothing(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 4):
        assert "sends acknowledged" in run(broker, seed).value


@pytest.mark.parametrize("seed", [33, 302, 354, 413])
def test_retries_across_a_clean_restart_write_nothing_twice(seed: int) -> None:
    """Days on which a client had several batches under way when the broker stopped."""
    assert "sends acknowledged" in run(broker, seed).value


def test_a_day_repeats_byte_for_byte_in_other_processes() -> None:
    command = [sys.executable, "-m", "simulation", "broker", "--seed", "5"]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert traces[0].decode() == run(broker, 5).trace.text()
