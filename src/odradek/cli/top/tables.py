"""A panel as lines: which columns fit into the width, and which rows come first."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from odradek.cli.top.panels import Column, Panel
from odradek.cli.top.styled import PLAIN, Line, Span, fitted, width_of

_GAP: Final = 2
_MEASURED_ROWS: Final = 300


class Order(NamedTuple):
    """By which column rows are sorted, and whether the smallest comes first."""

    header: str
    ascending: bool = False


def sorted_rows(panel: Panel, rows: Sequence[Any], order: Order) -> list[Any]:
    """Returns the rows in their order. What is not known comes last; equal rows keep the order of
    names."""
    column = next((one for one in panel.columns if one.header == order.header), panel.columns[0])
    known = [row for row in rows if column.value(row) is not None]
    unknown = [row for row in rows if column.value(row) is None]
    is_text = bool(known) and isinstance(column.value(known[0]), str)
    # Names are read from A to Z, figures from the largest on.
    known.sort(key=cast("Callable[[Any], float]", column.value), reverse=is_text is order.ascending)
    return known + unknown


def matching(panel: Panel, rows: Sequence[Any], text: str) -> list[Any]:
    if not text:
        return list(rows)
    wanted = text.casefold()
    return [row for row in rows if wanted in panel.text_of(row).casefold()]


def fitting_columns(panel: Panel, rows: Sequence[Any], width: int) -> list[tuple[Column, int]]:
    """Returns the columns that fit, in their order, with their widths. The first one is always
    there, and gives way if the most important ones do not fit as they are."""
    needed = {
        column.header: max(
            [column.width, len(column.header)]
            + [width_of(column.show(row)) for row in rows[:_MEASURED_ROWS]]
        )
        for column in panel.columns
    }
    kept: list[Column] = []
    room = width + _GAP
    first = panel.columns[0]
    for column in sorted(panel.columns, key=lambda one: one.importance):
        least = needed[column.header] + _GAP
        if column is first:
            least = min(least, first.width + _GAP)
        if column.importance and least > room:
            break
        kept.append(column)
        room -= least
    widths = {column.header: needed[column.header] for column in kept}
    # What is left over is for the first column, which may be longer than it must be.
    widths[first.header] = min(needed[first.header], first.width + max(room, 0))
    shown = [column for column in panel.columns if column in kept]
    last = shown[-1]
    if last is not first and last.is_left:
        used = sum(widths.values()) + _GAP * (len(widths) - 1) - widths[last.header]
        widths[last.header] = max(min(needed[last.header], width - used), 1)
    return [(column, widths[column.header]) for column in shown]


def table_lines(
    panel: Panel, rows: Sequence[Any], order: Order, width: int, *, first: int = 0, count: int
) -> list[Line]:
    """Returns the line of headers and at most `count` rows from row `first` on. The rows must be
    sorted already."""
    columns = fitting_columns(panel, rows, width)
    lines = [_header(columns, order)]
    for row in rows[first : first + count]:
        lines.append(_row(columns, row))
    if not rows and count:
        lines.append([Span(panel.empty, "dim")])
    return lines


def _header(columns: Sequence[tuple[Column, int]], order: Order) -> Line:
    line: Line = []
    for column, width in columns:
        if line:
            line.append(Span(" " * _GAP))
        text = fitted(column.header, width, is_left=column.is_left)
        line.append(Span(text, "chosen" if column.header == order.header else "bold"))
    return line


def _row(columns: Sequence[tuple[Column, int]], row: Any) -> Line:
    line: Line = []
    for column, width in columns:
        if line:
            line.append(Span(" " * _GAP))
        text = fitted(column.show(row), width, is_left=column.is_left)
        line.append(Span(text, column.style(row) or PLAIN))
    return line
