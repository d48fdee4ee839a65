"""Bad days of groups and transactions: none breaks a rule, each repeats, planted bugs are found.

The thousand seeds are for `python -m simulation`; here are a few of each.
"""

from itertools import chain
from typing import NamedTuple

import pytest

from simulation import run
from simulation.planted_bugs import PLANTS, planted
from simulation.scenarios.bad_day import Anomaly, Unseen
from simulation.scenarios.groups import groups
from simulation.scenarios.transactions import transactions

SCENARIOS = {"groups": groups, "transactions": transactions}
MOST_SEEDS = 200


class Finding(NamedTuple):
    """What a planted bug does, and which seed shows it today.

    Other code makes other days: then another seed is looked for. A run that ends by an error of
    the code, or by waiting in vain, is no finding unless that is what the bug does.
    """

    scenario: str
    seed: int
    shows_as: type[AssertionError]
    says: str


FINDINGS = {
    "apply-after-commit": Finding("groups", 14, Anomaly, "two owners"),
    "forget-fencing": Finding("transactions", 3, Anomaly, "zombie"),
    "lose-a-pending-offset": Finding("transactions", 137, Anomaly, "stale offset"),
    "reuse-a-producer-id": Finding("transactions", 8, Anomaly, "inconsistent"),
    # Without its marker a transaction stays open for ever: what follows it is never seen.
    "skip-a-marker": Finding("transactions", 1, Unseen, "transactions that nobody ends"),
}


@pytest.mark.parametrize("first_seed", [1, 5, 9])
def test_a_group_is_given_everything_by_one_owner_at_a_time(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 4):
        assert "commits acknowledged" in run(groups, seed).value


@pytest.mark.parametrize("first_seed", [1, 4, 7])
def test_transactions_make_output_equal_input(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 3):
        assert "transactions committed" in run(transactions, seed).value


@pytest.mark.parametrize("scenario", [groups, transactions])
def test_a_day_repeats_byte_for_byte(scenario: object) -> None:
    for seed in (2, 3):
        traces = [run(scenario, seed).trace.text() for _ in range(2)]  # type: ignore[arg-type]
        assert traces[0] == traces[1]


@pytest.mark.parametrize("plant", sorted(FINDINGS))
def test_a_planted_bug_is_found(plant: str) -> None:
    finding = FINDINGS[plant]
    for seed in chain([finding.seed], range(1, MOST_SEEDS + 1)):
        if _is_found(plant, finding, seed):
            return
    pytest.fail(f"{MOST_SEEDS} seeds of {finding.scenario} did not find {plant}")


def _is_found(plant: str, finding: Finding, seed: int) -> bool:
    try:
        with planted(plant):
            run(SCENARIOS[finding.scenario], seed)
    except finding.shows_as as error:
        return finding.says in str(error)
    except Exception:  # noqa: BLE001 - it failed, but did not find what it is made for
        return False
    return False


def test_a_planted_bug_is_taken_back() -> None:
    patches = [patch for plant in PLANTS.values() for patch in plant()]
    before = [getattr(place, name) for place, name, _ in patches]
    for plant in PLANTS:
        with planted(plant):
            assert [getattr(place, name) for place, name, _ in patches] != before
        assert [getattr(place, name) for place, name, _ in patches] == before
