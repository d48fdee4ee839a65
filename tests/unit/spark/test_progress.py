"""Lag is what progress says, whatever other sources a query has."""

from odradek.protocol.types import TopicPartition
from odradek.spark.progress import lag, total_lag


def test_lag_is_the_distance_to_the_latest_offsets() -> None:
    progress = {
        "sources": [
            {
                "endOffset": '{"a": {"0": 5}, "#split": {"min_partitions": 3}}',
                "latestOffset": '{"a": {"0": 9, "1": 4}}',
            },
            {"endOffset": "7", "latestOffset": None},
        ]
    }
    assert lag(progress) == {TopicPartition("a", 0): 4, TopicPartition("a", 1): 4}
    assert total_lag(progress) == 8
    assert total_lag(None) == 0
