"""The ledger of a sweep: what it counts, where it goes on, and what a digest sees."""

from pathlib import Path

import pytest

from simulation import sweep
from simulation.__main__ import SCENARIOS
from simulation.sweep import SLICE_SEEDS, Ledger, Slice, by_turns, digest_of


def test_a_ledger_is_read_again(tmp_path: Path) -> None:
    played = Slice("a", "broker", 10, 14, (12,))
    Ledger(tmp_path / "ledger").add(played)
    assert Ledger(tmp_path / "ledger").slices == [played]


def test_slices_that_follow_each_other_become_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(Slice("a", "broker", 1, 25, (7,)))
    ledger.add(Slice("a", "broker", 51, 75))
    ledger.add(Slice("a", "broker", 26, 50, (30,)))
    first = Slice("a", "broker", 1, 50, (7, 30))
    assert Ledger(tmp_path / "ledger").slices == [first, Slice("a", "broker", 51, 75)]
    assert ledger.count("a", "broker") == 75


def test_what_other_code_played_does_not_count_and_is_not_played_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(Slice("old", "broker", 100, 109))
    ledger.add(Slice("new", "broker", 110, 112))
    assert ledger.count("new", "broker") == 3
    wanted = [each for each in by_turns(ledger, "new", 5, 100) if each[0] == "broker"]
    assert wanted == [("broker", 113, 2)]


def test_scenarios_take_turns_until_each_has_enough(tmp_path: Path) -> None:
    slices = list(by_turns(Ledger(tmp_path / "ledger"), "a", SLICE_SEEDS + 1, 7))
    names = list(SCENARIOS)
    assert [name for name, _, _ in slices] == names + names
    assert slices[0] == (names[0], 7, SLICE_SEEDS)
    assert slices[-1] == (names[-1], 7 + SLICE_SEEDS, 1)


def test_a_digest_sees_code_and_no_sentences() -> None:
    plain = digest_of(["def f(a):\n    return a\n"])
    assert plain == digest_of(['def f(a):\n    "Says."\n    return a  # why\n'])
    assert plain != digest_of(["def f(a):\n    return -a\n"])


def test_a_sweep_plays_every_scenario_and_shows_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "code_digest", lambda: "now")
    ledger = Ledger(tmp_path / "ledger")
    sweep.sweep(ledger, 1, 1, 2)
    assert {one.scenario for one in ledger.slices} == set(SCENARIOS)
    assert all(one.count == 1 and one.digest == "now" for one in ledger.slices)
    assert sweep.show(ledger) == 0
    ledger.add(Slice("now", "broker", 2, 4, (3,)))
    assert sweep.show(ledger) == 1
    assert "broker: 4 seeds, failed: 3\n" in capsys.readouterr().out
