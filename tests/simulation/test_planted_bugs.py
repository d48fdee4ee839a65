"""Bugs planted in the code are found, each by the rule it breaks, and are taken back."""

from itertools import chain

import pytest

from simulation.__main__ import look_for
from simulation.findings import FINDINGS
from simulation.planted_bugs import PLANTS, planted

MOST_SEEDS = 200


def test_it_is_said_of_every_bug_how_it_shows() -> None:
    assert FINDINGS.keys() == PLANTS.keys()


@pytest.mark.parametrize("plant", sorted(one for one in FINDINGS if FINDINGS[one].seed is not None))
def test_a_planted_bug_is_found(plant: str) -> None:
    known = FINDINGS[plant].seed
    assert known is not None
    for seed in chain([known], range(1, MOST_SEEDS + 1)):
        if look_for(plant, seed)[1] is not None:
            return
    pytest.fail(f"{MOST_SEEDS} seeds of {FINDINGS[plant].scenario} did not find {plant}")


def test_a_planted_bug_is_taken_back() -> None:
    patches = [patch for plant in PLANTS.values() for patch in plant()]
    before = [getattr(place, name) for place, name, _ in patches]
    for plant in PLANTS:
        with planted(plant):
            assert [getattr(place, name) for place, name, _ in patches] != before
        assert [getattr(place, name) for place, name, _ in patches] == before
