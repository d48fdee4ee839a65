"""The page without a terminal: what is on it, and what keys change."""

import pytest

from odradek.cli.top.page import NAMES, Page
from odradek.cli.top.panels import BROKERS, PANELS, count
from odradek.cli.top.screen import keys_in
from odradek.cli.top.styled import Span, cut, fitted, plain_text, width_of, written
from odradek.cli.top.tables import Order, fitting_columns, sorted_rows
from odradek.cli.top.top import PANEL_NAMES
from odradek.ops.top.figures import (
    BrokerFigures,
    ClusterFigures,
    Event,
    GroupFigures,
    PartitionFigures,
    TopicFigures,
)


def group(name: str, lag: int, *, status: str = "OK", seconds: float | None = 1.0) -> GroupFigures:
    return GroupFigures(name, "group", status, lag, seconds, False, 3, 1, 10.0, "orders-0")


FIGURES = ClusterFigures(
    1_700_000_000_000,
    "abc",
    2.0,
    tuple(
        BrokerFigures(number, f"host:{9000 + number}", None, number == 1, "running", 4, 8, 0, 1e6)
        for number in (1, 2, 3)
    ),
    tuple(
        TopicFigures(f"topic-{number}", 3, 3, 0, 0, 100.0, 5.0, float(number))
        for number in range(40)
    ),
    tuple(PartitionFigures("topic-1", number, 1, (1, 2), (1, 2)) for number in range(5)),
    (group("billing", 10), group("audit", 5000, status="ERR"), group("late", 7, seconds=None)),
    (Event(1_700_000_000_000, "bad", "broker 4 is gone"),),
)


def page(**options: str) -> Page:
    made = Page("localhost:9092", **options)
    made.update(FIGURES)
    return made


def texts(shown: Page, width: int = 80, height: int = 24) -> list[str]:
    lines = shown.lines(width, height)
    assert len(lines) == height
    assert all(width_of(span.text) <= width for line in lines for span in line)
    assert all(sum(width_of(span.text) for span in line) <= width for line in lines)
    return [plain_text(line) for line in lines]


@pytest.mark.parametrize("height", [0, 1, 2, 3, 4, 5, 10, 24, 50])
@pytest.mark.parametrize("width", [1, 5, 20, 40, 80, 200])
def test_every_panel_fits_every_size(width: int, height: int) -> None:
    for name in NAMES:
        texts(page(panel=name), width, height)
    shown = page()
    shown.press("?")
    texts(shown, width, height)
    texts(Page("localhost:9092"), width, height)


def test_the_overview_has_all_of_it() -> None:
    whole = "\n".join(texts(page()))
    for text in ("3/3 brokers", "1 *", "topic-39", "billing", "broker 4 is gone", "q quit"):
        assert text in whole
    assert "topic-1-0" not in whole  # Partitions are shown where there is more room.
    assert "topic-1-0" in "\n".join(texts(page(), 200, 50))
    assert "1/3 groups not OK" in whole


def test_a_wide_terminal_shows_more_columns() -> None:
    narrow, wide = texts(page(panel="brokers")), texts(page(panel="brokers"), 200)
    assert "ADDRESS" in wide[3]
    assert "ADDRESS" not in narrow[3]
    assert narrow[3].split()[:4] == ["BROKER", "STATE", "IN/s", "OUT/s"]


def test_panels_are_chosen_by_number_and_tab() -> None:
    shown = page()
    for number, name in enumerate(NAMES, 1):
        assert shown.press(str(number))
        assert shown.panel == name
    shown.press("tab")
    assert shown.panel == NAMES[0]
    shown.press("backtab")
    assert shown.panel == NAMES[-1]
    shown.press("9")
    assert shown.panel == NAMES[-1]
    assert NAMES == PANEL_NAMES


def rows(shown: Page) -> list[str]:
    return [line.split()[0] for line in texts(shown)[4:-1] if line]


def test_sorting() -> None:
    shown = page(panel="groups")
    assert rows(shown) == ["audit", "billing", "late"]
    shown.press("r")
    assert rows(shown) == ["late", "billing", "audit"]
    shown.press("s")
    assert shown.orders["groups"] == Order("BEHIND")
    assert rows(shown)[-1] == "late"  # What is not known comes last.
    shown.press("S")
    shown.press("S")
    shown.press("S")
    assert shown.orders["groups"] == Order("GROUP")
    assert rows(shown) == ["audit", "billing", "late"]
    overview = page()
    overview.press("s")
    assert overview.orders == page().orders


def test_filtering() -> None:
    shown = page(panel="groups")
    shown.press("/")
    for key in ("B", "i", "q", "backspace"):
        assert shown.press(key)  # q is a letter here
    assert "show only: Bi" in texts(shown)[-1]
    assert rows(shown) == ["billing"]
    shown.press("enter")
    assert "/Bi" in texts(shown)[2]
    shown.press("escape")
    assert len(rows(shown)) == 3
    shown.press("/")
    shown.press("x")
    shown.press("escape")
    assert shown.filter == ""


def test_a_pause_keeps_the_figures() -> None:
    shown = page()
    shown.press("p")
    shown.update(ClusterFigures(1_700_000_002_000, "abc", 2.0))
    assert shown.figures is FIGURES
    assert "PAUSED" in texts(shown)[0]
    shown.press(" ")
    shown.update(ClusterFigures(1_700_000_002_000, "abc", 2.0))
    assert shown.figures is not FIGURES
    assert "no topics" in "\n".join(texts(shown))


def test_scrolling_stops_at_both_ends() -> None:
    shown = page(panel="topics")
    assert rows(shown)[0] == "topic-39"
    for key in ("down", "j", "k"):
        shown.press(key)
    assert rows(shown)[0] == "topic-38"
    shown.press("end")
    assert rows(shown)[-1] == "topic-0"
    shown.press("pagedown")
    assert rows(shown)[-1] == "topic-0"
    shown.press("home")
    shown.press("up")
    assert rows(shown)[0] == "topic-39"


def test_help_and_quitting() -> None:
    shown = page()
    assert shown.press("?")
    assert "reverse the order" in "\n".join(texts(shown))
    assert shown.press("x")
    assert "reverse the order" not in "\n".join(texts(shown))
    assert not shown.press("q")


def test_a_problem_is_told_until_brokers_answer_again() -> None:
    shown = page()
    shown.problem = "cannot reach a broker\x1b[2J"
    assert texts(shown)[-1] == "cannot reach a broker?[2J"
    shown.update(FIGURES)
    assert "q quit" in texts(shown)[-1]


def test_names_cannot_control_the_terminal() -> None:
    evil = group("a\x1b]0;title\x07\n\u202eb", 1)
    shown = page(panel="groups")
    shown.update(ClusterFigures(0, "abc", 2.0, groups=(evil, group("日本語のグループ名です", 2))))
    for line in shown.lines(80, 24):
        assert all(span.text.isprintable() for span in line)
    texts(shown, 40)


def test_widths() -> None:
    assert fitted("orders", 8) == "orders  "
    assert fitted("12", 5, is_left=False) == "   12"
    assert fitted("orders", 4) == "ord."
    assert fitted("日本語", 5) == "日本."
    assert width_of(fitted("日本語", 4)) == 4
    assert fitted("orders", 0) == ""
    assert plain_text(cut([Span("abc"), Span("def")], 4)) == "abcd"


def test_without_colours_only_weight_and_reversal_are_used() -> None:
    line = [Span("a", "bad"), Span("b", "good"), Span("c", "chosen"), Span("d")]
    assert written(line, colours=False) == "\x1b[1ma\x1b[0mb\x1b[7mc\x1b[0md"
    assert written(line, colours=True).startswith("\x1b[1;31ma\x1b[0m\x1b[32mb")


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\t", ["up", "down", "tab"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[5~\x1b[Z\x7f\r", ["pageup", "backtab", "backspace", "enter"]),
        (b"\x1b[1;5Cx", ["x"]),  # a key that means nothing here
        ("ä日".encode(), ["ä", "日"]),
        (b"\xff", ["�"]),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert keys_in(data) == keys


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "-"), (0, "0"), (7, "7"), (7.0, "7"), (0.25, "0.2"), (99_999, "99999"),
     (123_456, "123k"), (1_234_567, "1.2M"), (5e12, "5T")],
)  # fmt: skip
def test_counts_are_short(number: float | None, shown: str) -> None:
    assert count(number) == shown


def test_headers_are_unique_and_the_order_names_one() -> None:
    for panel in PANELS:
        headers = [column.header for column in panel.columns]
        assert len(set(headers)) == len(headers)
        assert panel.sort in headers


def test_columns_go_by_importance() -> None:
    every = [column for column, _ in fitting_columns(BROKERS, FIGURES.brokers, 250)]
    assert every == list(BROKERS.columns)
    for width in range(20, 250, 5):
        shown = {column.header for column, _ in fitting_columns(BROKERS, FIGURES.brokers, width)}
        missing = [column.importance for column in every if column.header not in shown]
        kept = [column.importance for column in every if column.header in shown]
        assert not missing or min(missing) >= max(kept)


def test_rows_of_equal_figures_keep_their_order() -> None:
    assert sorted_rows(BROKERS, FIGURES.brokers, Order("IN/s")) == list(FIGURES.brokers)
