"""A short run of the scenario; the long ones are for people."""

from pathlib import Path

from tests.scenarios.exactly_once import ExactlyOnce


def test_every_record_counts_once_whoever_dies(tmp_path: Path) -> None:
    tally = ExactlyOnce(tmp_path, seed=1, records=5_000).run()
    assert tally.records == 5_000
    assert tally.broker_kills + tally.worker_kills > 0
