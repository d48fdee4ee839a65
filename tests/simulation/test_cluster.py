"""Bad days of a whole cluster: fixed seeds and fresh ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import run
from simulation.scenarios.cluster import cluster
from tests.simulation.fresh_seeds import first_fresh_seed, seed_of

# What one run of the tests spends on seeds that nobody has played before; in parts, for those
# who have several processors.
_FRESH_SEEDS = 40
_PARTS = 4


# With 180364872 the last commit's markers are not replicated yet when all clients have finished.
@pytest.mark.parametrize("seed", [*range(1, 7), 180364872])
def test_a_bad_day_of_three_brokers_breaks_no_rule(seed: int) -> None:
    assert "sends acknowledged" in run(cluster, seed).value


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    program = (
        "from simulation import run\n"
        "from simulation.scenarios.cluster import cluster\n"
        "for seed in (1, 2, 3): print(run(cluster, seed).trace.digest())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout.split()
        for hash_seed in ("0", "1")
    ]
    assert printed == [[run(cluster, seed).trace.digest() for seed in (1, 2, 3)]] * 2


@pytest.mark.parametrize("part", range(_PARTS))
def test_fresh_seeds(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Replay one that fails with `scripts/odradek-sim --seed N`."""
    first = first_fresh_seed()
    fresh = range(first, first + _FRESH_SEEDS)[part::_PARTS]
    for seed in fresh:
        try:
            run(cluster, seed)
        except BaseException:
            with capsys.disabled():
                print(f"\nseed {seed} of the cluster failed: scripts/odradek-sim --seed {seed}")
            raise
    with capsys.disabled():
        print(f"\nfresh seeds of the cluster played: {', '.join(map(str, fresh))}")


def test_a_commit_gives_everyone_the_same_fresh_seeds() -> None:
    commit = "a364edaf" * 5
    assert seed_of(commit) == 42361775, "the same on every machine and in every run"
    assert seed_of(commit) != seed_of("b" + commit[1:])
