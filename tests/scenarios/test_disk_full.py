"""A disk that fills up under load. Longer: ``python -m tests.scenarios.disk_full``."""

from pathlib import Path

from tests.needs import need
from tests.scenarios.disk_full import DiskFull, Tally


def test_nothing_acknowledged_is_lost_and_writing_goes_on_without_a_restart(tmp_path: Path) -> None:
    def run() -> Tally:
        return DiskFull(tmp_path, disk_mb=32).run(rounds=1, full_s=3.0)

    tally = need(run)
    assert tally.acknowledged > 1000
    assert tally.refused
    assert tally.read_while_full > 1000
