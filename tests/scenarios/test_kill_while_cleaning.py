"""kill -9 amid compaction. Longer: ``python -m tests.scenarios.kill_while_cleaning``."""

from pathlib import Path

from tests.scenarios.kill_while_cleaning import KillWhileCleaning


def test_nothing_newest_is_lost_and_nothing_is_left_over(tmp_path: Path) -> None:
    tally = KillWhileCleaning(tmp_path, seed=1).run(kills=5)
    assert tally.kills == 5
    assert tally.workers_killed == 1


def test_no_plain_byte_of_an_encrypted_topic_is_on_the_disk(tmp_path: Path) -> None:
    tally = KillWhileCleaning(tmp_path, seed=2, is_encrypted=True).run(kills=2)
    assert tally.kills == 2
    assert tally.searched_bytes > 1 << 20
