"""Bugs planted in the code are found, each by the rule it breaks, and are taken back."""

import re
from contextlib import nullcontext
from inspect import getattr_static
from itertools import chain
from pathlib import Path

import pytest

import odradek
from simulation.__main__ import look_for, play_one
from simulation.findings import FINDINGS
from simulation.planted_bugs import PLANTS, planted
from simulation.scenarios.transactions import KNOW_THE_LAST_EPOCH

MAX_SEEDS = 200


def test_it_is_said_of_every_bug_how_it_shows() -> None:
    assert FINDINGS.keys() == PLANTS.keys()


@pytest.mark.parametrize("plant", sorted(one for one in FINDINGS if FINDINGS[one].seed is not None))
def test_a_planted_bug_is_found(plant: str) -> None:
    known = FINDINGS[plant].seed
    assert known is not None
    for seed in chain([known], range(1, MAX_SEEDS + 1)):
        if look_for(plant, seed)[1] is not None:
            return
    pytest.fail(f"{MAX_SEEDS} seeds of {FINDINGS[plant].scenario} did not find {plant}")


def test_a_planted_bug_is_taken_back() -> None:
    """A static method that came back as a function failed 28 tests which ran after it."""
    patches = [patch for plant in PLANTS.values() for patch in plant()]

    def current() -> list[object]:
        return [getattr_static(place, name) for place, name, _ in patches]

    before = current()
    for plant in PLANTS:
        with planted(plant):
            assert current() != before
        assert current() == before


def test_a_bug_whose_place_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a function was renamed. Two hundred seeds would find nothing, and not say why."""
    plant = "ordinary-internal-topics"
    monkeypatch.setitem(PLANTS, plant, lambda: [(PLANTS, "no_such_name", None)])
    with pytest.raises(AttributeError, match="no_such_name"):
        look_for(plant, 1)


def test_few_epochs_are_set_wherever_the_last_one_is_known() -> None:
    """A module that imports the constant has a copy of its own."""
    root = Path(odradek.__file__).parent
    knowing = {
        path.relative_to(root.parent).with_suffix("").as_posix().replace("/", ".")
        for path in root.rglob("*.py")
        if re.search(r"\bLAST_EPOCH\b", path.read_text())
    }
    assert {module.__name__ for module in KNOW_THE_LAST_EPOCH} == knowing


def test_a_seed_that_finds_a_planted_bug_says_by_which_rule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant = "ordinary-internal-topics"
    seed = FINDINGS[plant].seed
    assert seed is not None
    assert play_one("topics", seed, plant) == 0
    (verdict,) = capsys.readouterr().err.splitlines()
    assert verdict.startswith(f"{plant}: found by seed {seed} of topics: ordinary internal topic")


def test_a_seed_that_does_not_find_a_planted_bug_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulation.__main__.planted", lambda plant: nullcontext())
    assert play_one("topics", 2, "ordinary-internal-topics") == 1
    (verdict,) = capsys.readouterr().err.splitlines()
    assert verdict == "ordinary-internal-topics: not found by seed 2 of topics: the run passed"


def test_every_bug_stands_in_the_documentation_with_its_seed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    told = dict[str, tuple[str, str]]()
    for bug, scenario, seed in re.findall(
        r"^\| `([a-z-]+)` \| `([a-z]+)` \| (\d+|none) \|", text, re.M
    ):
        told[bug] = (scenario, seed)
    assert told == {
        bug: (finding.scenario, "none" if finding.seed is None else str(finding.seed))
        for bug, finding in FINDINGS.items()
    }
