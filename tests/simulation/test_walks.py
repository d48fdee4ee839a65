"""Walks over what brokers, coordinators and topics go through: fixed seeds and fresh ones."""

import pytest

from simulation import run
from simulation.__main__ import find
from tests.simulation.fresh_seeds import first_fresh_seed

# What one run of the tests spends on each: seeds that everybody plays, and fresh ones.
WALKS = {
    "clients": (3, 5),
    "failover": (2, 2),
    "fencing": (4, 8),
    "leases": (3, 5),
    "retries": (4, 8),
    "roles": (8, 12),
    "sink": (4, 6),
    "topics": (6, 12),
}


@pytest.mark.parametrize("name", sorted(WALKS))
def test_a_walk_breaks_no_rule(name: str) -> None:
    fixed, fresh = WALKS[name]
    first = first_fresh_seed()
    for seed in (*range(1, fixed + 1), *range(first, first + fresh)):
        try:
            assert run(find(name), seed).value
        except BaseException as error:
            error.add_note(f"replay it with: python -m simulation {name} --seed {seed}")
            raise


@pytest.mark.parametrize("name", sorted(WALKS))
def test_a_walk_repeats_byte_for_byte(name: str) -> None:
    traces = [run(find(name), 2).trace.text() for _ in range(2)]
    assert traces[0] == traces[1]
