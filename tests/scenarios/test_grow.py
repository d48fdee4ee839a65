"""A single broker with live clients becomes a cluster of three, also if it is interrupted."""

from pathlib import Path

import pytest

from tests.scenarios.grow import INTERRUPTS, GrowScenario


@pytest.mark.parametrize("interrupt", [None, *INTERRUPTS])
def test_nothing_is_lost_or_doubled(interrupt: str | None, tmp_path: Path) -> None:
    outcome = GrowScenario(tmp_path, 20_000).run(interrupt)
    assert outcome.is_sound, str(outcome)
    assert outcome.records > 20_000
    assert outcome.transactions > 1
