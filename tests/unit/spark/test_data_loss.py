"""When records that a query is to read are missing. One check for batches and all triggers."""

import logging

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.data_loss import DataMissing, lost_since, outside_log, report
from odradek.spark.offsets import OffsetsJson

_T0 = TopicPartition("t", 0)
_LOG = {_T0: 5}, {_T0: 9}


@pytest.mark.parametrize("offset", [5, 7, 9])
def test_offsets_within_the_log_and_its_end_are_there(offset: int) -> None:
    assert outside_log("startingOffsets", {_T0: offset}, *_LOG) == []


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (10, "startingOffsets names offset 10 of t [0], which ends at 9"),
        (4, "startingOffsets names offset 4 of t [0], which begins at 5"),
    ],
)
def test_offsets_outside_of_the_log_are_said(offset: int, said: str) -> None:
    assert outside_log("startingOffsets", {_T0: offset}, *_LOG) == [said]


_IDS = {"t": "00" * 16}


@pytest.mark.parametrize(
    ("start", "latest", "ids", "said"),
    [
        ({"t": {"0": 7}}, {_T0: 9}, _IDS, []),
        ({"t": {"0": 7}}, {_T0: 1}, _IDS, ["t [0] ends at 1 after 7 was read"]),
        (
            {"t": {"0": 7}},
            {},
            _IDS,
            [
                (
                    "t [0] is gone, or this query reads it no longer (another query needs another"
                    " checkpointLocation)"
                )
            ],
        ),
        (
            {"t": {"0": 7}, "#ids": {"t": "ff" * 16}},
            {_T0: 9},
            _IDS,
            ["t was deleted and created again after offset 7 of partition 0 was read"],
        ),
    ],
)
def test_what_is_gone_since_a_checkpoint(
    start: OffsetsJson, latest: dict[TopicPartition, int], ids: dict[str, str], said: list[str]
) -> None:
    assert lost_since(start, latest, ids) == said


def test_a_loss_stops_the_query_or_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataMissing, match=r"t \[0\] is gone; records may be lost.*failOnDataLoss"):
        report(["t [0] is gone"], fail_on_data_loss=True)
    with caplog.at_level(logging.WARNING):
        report(["t [0] is gone"], fail_on_data_loss=False)
    assert caplog.messages == ["t [0] is gone: going on without"]
    report([], fail_on_data_loss=True)
