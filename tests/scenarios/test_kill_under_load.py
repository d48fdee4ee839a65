"""Acknowledged records outlive kill -9. Longer: ``python -m tests.scenarios.kill_under_load``."""

from pathlib import Path

import pytest

from tests.scenarios.kill_under_load import KillUnderLoad


@pytest.mark.parametrize("flush_messages", [None, 1])
def test_every_acknowledged_record_survives(tmp_path: Path, flush_messages: int | None) -> None:
    tally = KillUnderLoad(tmp_path, seed=3, flush_messages=flush_messages).run(kills=3)
    assert tally.kills == 3
    assert tally.acknowledged > 300
