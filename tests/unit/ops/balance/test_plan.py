"""Waves, expected times, journals and the text of a plan."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.ops.balance.execution import Options, divided, entry_of
from odradek.ops.balance.journal import (
    AlreadyRunning,
    Entry,
    Journal,
    JournalUnreadable,
    State,
    Throttles,
)
from odradek.ops.balance.plan import Move, expected_s, waves
from odradek.ops.balance.planner import make_plan
from odradek.ops.balance.report import plan_json, plan_lines
from odradek.world.disk import OsDisk
from tests.unit.ops.balance.models import at, cluster, skewed

MOVES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(5, 8), st.integers(0, 100)), max_size=30
).map(
    lambda drawn: [
        Move(at(index), (source,), (target,), size, source)
        for index, (source, target, size) in enumerate(drawn)
    ]
)


class TestWaves:
    @given(MOVES, st.integers(1, 4), st.integers(1, 200))
    def test_every_move_is_in_one_wave_and_waves_are_bounded(
        self, moves: list[Move], most: int, size: int
    ) -> None:
        made = waves(moves, most, size)
        assert sorted(m.partition for wave in made for m in wave) == [m.partition for m in moves]
        for wave in made:
            assert sum(move.bytes_to_move for move in wave) <= size or len(wave) == 1
            for broker in range(1, 9):
                assert sum(broker in (*move.adding, move.leader) for move in wave) <= most

    def test_the_busiest_broker_of_each_wave_says_how_long_it_takes(self) -> None:
        first = [Move(at(0), (1,), (2,), 100, 1), Move(at(1), (1,), (3,), 100, 1)]
        assert expected_s([first, [Move(at(2), (4,), (5,), 50, 4)]], 10) == 25.0


class TestJournal:
    def entry(self) -> Entry:
        plan = make_plan(cluster(dict.fromkeys((1, 2)), [(1,)] * 4))
        return entry_of(plan, "balance", Options(), 7)

    def test_it_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        journal = Journal(OsDisk(), str(tmp_path / "new" / "journal.json"))
        assert journal.read() is None
        journal.acquire()
        throttles = Throttles({"1": {"a": None}}, {"t": {"b": "c"}})
        entry = replace(self.entry(), throttles=throttles)
        assert entry.moves
        journal.write(entry)
        assert journal.read() == entry
        journal.write(entry.with_state(State.FAILED, "why"))
        read = journal.read()
        assert read is not None
        assert (read.state, read.reason) == (State.FAILED, "why")

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        path = str(tmp_path / "journal.json")
        first, second = Journal(OsDisk(), path), Journal(OsDisk(), path)
        assert not second.is_locked()
        first.acquire()
        assert second.is_locked()
        with pytest.raises(AlreadyRunning, match="odradek balance status"):
            second.acquire()
        second.ask_to_stop()
        assert first.is_asked_to_stop()
        first.release()
        assert not second.is_locked()
        second.acquire()
        assert not second.is_asked_to_stop()

    def test_another_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "journal.json"
        for content in ("{", "[]", '{"cluster_id": 3}'):
            path.write_text(content)
            with pytest.raises(JournalUnreadable, match="is not a journal"):
                Journal(OsDisk(), str(path)).read()


class TestReport:
    def test_text_and_json_say_the_same(self) -> None:
        plan = make_plan(skewed(1, 60))
        options = Options(throttle=1_000_000)
        text = "\n".join(plan_lines(plan, options))
        content = json.loads(json.dumps(plan_json(plan, options)))
        assert f"{content['replicasMoved']} replicas move" in text
        assert content["bytesToMove"] == sum(move["bytes"] for move in content["moves"])
        assert content["waves"] == len(divided(plan, options))
        assert content["expectedSeconds"] > 0
        assert [row["broker"] for row in content["brokers"]] == list(range(1, 10))
        for total in ("before", "after"):
            assert sum(row[total]["replicas"] for row in content["brokers"]) == sum(
                len(partition.replicas) for partition in plan.before.partitions.values()
            )

    def test_a_throttle_below_the_producers_is_a_warning(self) -> None:
        plan = make_plan(skewed(1, 60))
        assert "never be in sync" in "\n".join(plan_lines(plan, Options(throttle=1000)))
        assert "never be in sync" not in "\n".join(plan_lines(plan, Options(throttle=-1)))

    def test_nothing_to_do_is_said(self) -> None:
        plan = make_plan(cluster(dict.fromkeys((1, 2)), [(1,), (2,)]))
        assert "Nothing to do: no move makes the cluster more even." in plan_lines(plan, Options())
