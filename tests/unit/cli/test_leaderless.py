"""Whoever reads or writes a partition without a leader is told why nothing happens."""

import pytest

from odradek.tools.admin_session import warn_of_leaderless


@pytest.mark.parametrize(
    ("leaderless", "said"),
    [
        ([], ""),
        ([1], "partition 1 has no leader now; what is written there waits until a broker"),
        ([0, 1], "partitions 0, 1 have no leader now; what is written there waits until a broker"),
        ([*range(9)], "partitions 0, 1, 2, 3, 4 ... have no leader now; what is written there"),
    ],
)
def test_it_is_said_once(
    leaderless: list[int], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_leaderless("t", leaderless, "what is written there waits")
    told = capsys.readouterr().err
    assert told.startswith(f"warning: topic t: {said}") if said else not told
