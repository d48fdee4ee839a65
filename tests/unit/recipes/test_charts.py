"""Pictures as text: as long as the numbers say."""

from pathlib import Path

from odradek.recipes import RECIPES, module_of
from odradek.recipes.charts import Bars, Grid, Trends, save_png


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = Bars("Title", [("a", [10]), ("bb", [5])]).text(40).splitlines()
    assert lines[0] == "Title"
    assert lines[1].startswith("  a  10 █")
    assert lines[1].count("█") == 2 * lines[2].count("█")
    assert max(map(len, lines)) <= 40


def test_parts_of_a_bar_are_told_apart_and_add_up() -> None:
    chart = Bars("Title", [("a", [3, 3, 3]), ("b", [9, 0, 0])], ["x", "y", "z"])
    lines = chart.text(60).splitlines()
    assert "█ x" in lines[1]
    assert "▓ y" in lines[1]
    first = lines[2].split()[-1]
    assert {first.count(mark) for mark in "█▓▒"} == {len(first) // 3}
    assert len(first) == lines[3].count("█")


def test_trends_share_a_scale() -> None:
    lines = Trends("Title", {"low": [0, 1], "high": [6, 7]}).text(40).splitlines()
    assert lines[0] == "Title (0 to 7)"
    assert lines[1] == "  low  ▁▂ 1"
    assert lines[2] == "  high ▇█ 7"


def test_a_long_line_is_thinned_to_fit() -> None:
    text = Trends("Title", {"a": [float(one) for one in range(1000)]}).text(60)
    assert max(map(len, text.splitlines())) <= 60


def test_a_grid_has_its_numbers() -> None:
    text = Grid("Title", ["12:00", "12:05"], [("airport", [1.0, 3.0])]).text(80)
    assert "1.0" in text
    assert "██ 3.0".replace(" ", "") in text.replace(" ", "")


def test_nothing_to_show_is_no_error() -> None:
    assert Bars("Title", []).text(40) == "Title"
    assert Trends("Title", {}).text(40).startswith("Title")
    assert Grid("Title", [], []).text(40).startswith("Title")


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    bars = Bars("b", [("a", [1, 2])], ["x", "y"])
    trends = Trends("t", {"a": [1, 2]})
    save_png(str(path), [bars, trends, Grid("g", ["c"], [("r", [1.0])])])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_each_recipe_has_its_module() -> None:
    root = Path(__file__).parents[3] / "src"
    for name in RECIPES:
        assert (root / (module_of(name).replace(".", "/") + ".py")).exists()
