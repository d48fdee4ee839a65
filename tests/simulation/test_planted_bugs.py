"""Bugs planted in the code are found, each by the rule it breaks, and are taken back."""

from itertools import chain

import pytest

from simulation import run
from simulation.__main__ import find
from simulation.findings import FINDINGS, finds
from simulation.planted_bugs import PLANTS, planted

MOST_SEEDS = 200


def test_it_is_said_of_every_bug_how_it_shows() -> None:
    assert FINDINGS.keys() == PLANTS.keys()


@pytest.mark.parametrize("plant", sorted(FINDINGS))
def test_a_planted_bug_is_found(plant: str) -> None:
    for seed in chain([FINDINGS[plant].seed], range(1, MOST_SEEDS + 1)):
        if _is_found(plant, seed):
            return
    pytest.fail(f"{MOST_SEEDS} seeds of {FINDINGS[plant].scenario} did not find {plant}")


def _is_found(plant: str, seed: int) -> bool:
    try:
        with planted(plant):
            run(find(FINDINGS[plant].scenario), seed)
    except Exception as error:  # noqa: BLE001 - most are no findings
        return finds(plant, error)
    return False


def test_a_planted_bug_is_taken_back() -> None:
    patches = [patch for plant in PLANTS.values() for patch in plant()]
    before = [getattr(place, name) for place, name, _ in patches]
    for plant in PLANTS:
        with planted(plant):
            assert [getattr(place, name) for place, name, _ in patches] != before
        assert [getattr(place, name) for place, name, _ in patches] == before
