"""Tables that fit the terminal, and JSON with Burrow's names."""

from odradek.ops.lag.evaluation import GroupStatus, Status
from odradek.ops.lag.history import LagHistory, Position, Sample
from odradek.ops.lag.report import group_lines, partition_lines, status_json
from odradek.protocol.types import TopicPartition

LONG = "a-group-whose-name-is-very-long-indeed-and-goes-on-and-on"


def stuck(group: str = LONG) -> GroupStatus:
    history = LagHistory()
    partition = TopicPartition("orders", 0)
    for at_ms in (0, 10_000, 20_000):
        history.add(Sample(at_ms, {group: {partition: Position(5, "h", "c1")}}, {partition: 100}))
    return history.evaluate(group, 20_000)


def test_tables_fit_80_columns_and_show_more_when_wide() -> None:
    narrow = group_lines([stuck()], 80, judged=True)
    assert max(map(len, narrow)) <= 80
    assert "ERR" in narrow[1]
    assert "orders-0 STALL 95" in narrow[1]
    assert "CLIENT" not in narrow[0]
    wide = group_lines([stuck()], 200, judged=True)
    assert LONG in wide[1]
    assert wide[1].endswith("c1")
    assert LONG in group_lines([stuck()], None, judged=True)[1]


def test_one_sample_shows_the_lag_alone() -> None:
    lines = group_lines([stuck("g")], 80, judged=False)
    assert lines[1].split()[:3] == ["g", "-", "95"]
    assert partition_lines(stuck("g"), 80, judged=False)[0] == "g: -, 95 records behind"


def test_json_has_the_names_of_burrow() -> None:
    found = status_json("local", stuck("g"), all_partitions=False)
    assert (found["status"], found["totallag"], found["partition_count"]) == ("ERR", 95, 1)
    (partition,) = found["partitions"]
    assert partition["status"] == "STALL"
    assert partition["start"] == {"offset": 5, "timestamp": 0, "observedAt": 0, "lag": 95}
    assert found["maxlag"] == partition
    fine = GroupStatus("g", Status.OK, 1.0)
    assert status_json("local", fine, all_partitions=True)["maxlag"] is None
