"""Bad days of a whole cluster: fixed seeds, fresh ones, and ones with a bug planted in the code."""

import os
import random
import time

import pytest

from simulation import run
from simulation.planted_bugs import planted
from simulation.scenarios.cluster import cluster

# What one run of the tests may spend on seeds that nobody has played before.
_FRESH_S = 20.0
_MOST_SEEDS = 200


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_bad_day_of_three_brokers_breaks_no_rule(seed: int) -> None:
    assert "sends acknowledged" in run(cluster, seed).value


def test_the_same_seed_gives_the_same_trace() -> None:
    assert run(cluster, 3).trace.digest() == run(cluster, 3).trace.digest()


def test_fresh_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """Replay one that fails with `scripts/odradek-sim --seed N`."""
    first = int(os.environ.get("ODRADEK_FIRST_SEED") or random.SystemRandom().randrange(10**9))
    deadline_s = time.monotonic() + _FRESH_S
    seed = first
    with capsys.disabled():
        while seed == first or time.monotonic() < deadline_s:
            try:
                run(cluster, seed)
            except BaseException:
                print(f"\nseed {seed} of the cluster failed")
                raise
            seed += 1
        print(f"\nfresh seeds of the cluster played: {first} to {seed - 1}")


@pytest.mark.parametrize(
    "bug",
    [
        "ack-before-replication",
        "elect-unclean",
        "forget-leader-fencing",
        "ignore-min-isr",
        "skip-truncation",
    ],
)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(1, _MOST_SEEDS + 1):
        try:
            with planted(bug):
                run(cluster, seed)
        except Exception:  # noqa: BLE001 - however it shows
            return
    pytest.fail(f"{bug} was not found by {_MOST_SEEDS} seeds")
