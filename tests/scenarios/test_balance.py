"""Three brokers with a live producer are balanced, also if the command is killed or stopped."""

from pathlib import Path

import pytest

from tests.scenarios.balance import BalanceScenario


@pytest.mark.parametrize(
    ("end", "replicas"), [("whole", 2), ("resume", 1), ("cancel", 2), ("stop", 1)]
)
def test_nothing_is_lost_and_no_throttle_is_left(end: str, replicas: int, tmp_path: Path) -> None:
    scenario = BalanceScenario(tmp_path, 60_000, replicas, 700_000, steady_s=0.5)
    outcome = scenario.run(end)
    assert outcome.is_sound, str(outcome)
    assert outcome.records > 60_000
    assert outcome.spread_before > 0.4
