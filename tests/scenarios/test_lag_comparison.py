"""Fifty scripted groups get the statuses that Burrow's rules give them, and all programs of Odradek
agree about their lags.

`python -m tests.scenarios.lag_comparison` compares them with Burrow, kafka_exporter and kminion.
"""

from pathlib import Path

import pytest

from tests.scenarios.lag_comparison import LagComparison


@pytest.mark.timeout(300)
def test_statuses_are_as_scripted_and_all_lags_agree(tmp_path: Path) -> None:
    outcome = LagComparison(tmp_path, {}, tick_s=0.5).run()
    assert outcome.unexplained == [], str(outcome)
    assert len(outcome.statuses) == 50
    assert outcome.lags > 80
