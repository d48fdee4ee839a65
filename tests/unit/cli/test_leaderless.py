"""Whoever writes to a partition without a leader is told why nothing happens."""

import pytest

from odradek.protocol.messages.metadata import MetadataResponsePartition
from odradek.tools.admin_session import _warn_of_leaderless


def partitions(*leaders: int) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(partition_index=index, leader_id=leader)
        for index, leader in enumerate(leaders)
    ]


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ((1, 2), ""),
        ((1, -1), "warning: topic t: partition 1 has no leader now; what is written there waits"),
        (
            (-1, -1),
            "warning: topic t: partitions 0, 1 have no leader now; what is written there waits",
        ),
    ],
)
def test_it_is_said_once(
    leaders: tuple[int, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _warn_of_leaderless("t", partitions(*leaders))
    told = capsys.readouterr().err
    assert told.startswith(said) if said else not told
