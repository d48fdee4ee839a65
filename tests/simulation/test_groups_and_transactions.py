"""Bad days of groups and transactions: none breaks a rule, each repeats.

The thousand seeds are for `python -m simulation`; here are a few of each.
"""

import pytest

from simulation import run
from simulation.scenarios.groups import groups
from simulation.scenarios.transactions import transactions


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
