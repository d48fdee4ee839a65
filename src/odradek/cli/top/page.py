"""The page: what is shown now, and what a key changes. It knows neither terminal nor brokers."""

from datetime import datetime
from typing import Any, Final

from odradek.cli.quantities import shown_seconds
from odradek.cli.top.panels import (
    BROKERS,
    EVENTS,
    GROUPS,
    PANELS,
    PARTITIONS,
    TOPICS,
    Panel,
    count,
    size,
)
from odradek.cli.top.styled import Line, Span, clean, cut, fitted
from odradek.cli.top.tables import Order, fitting_columns, matching, sorted_rows, table_lines
from odradek.ops.top.figures import ClusterFigures, total
from odradek.wording import counted

OVERVIEW: Final = "overview"
NAMES: Final = (OVERVIEW, *(panel.name for panel in PANELS))
_BY_NAME: Final = {panel.name: panel for panel in PANELS}
# What the overview has, from the top; with much room also the partitions.
_SECTIONS: Final = (BROKERS, TOPICS, GROUPS, EVENTS)
_MORE_SECTIONS: Final = (BROKERS, TOPICS, PARTITIONS, GROUPS, EVENTS)
_HEAD_LINES: Final = 3
_FOOT_LINES: Final = 1
# From so many lines on there is much room, and a blank line between the sections.
_SPACIOUS: Final = 30

_HELP: Final = (
    "q  Ctrl-C         quit",
    "1 to 6  Tab       choose a panel: overview, brokers, topics, partitions, groups, events",
    "s  S              sort by the next column, by the one before",
    "r                 reverse the order",
    "/                 show only what contains a text; Enter keeps it, Esc drops it",
    "p  Space          pause: figures stay as they are until p is pressed again",
    "j k  Up Down      scroll; also Page Up, Page Down, Home, End",
    "?                 this help; any key closes it",
    "",
    "URP      partitions of which a replica is not in sync (under-replicated)",
    "BEHIND   the age of the first record that a group has not read; > means at least",
    "CPU      of one processor; a broker uses one at most",
    "*        the controller",
    "-        not known: rates come with the second sample, and OUT/s, REQ/s, CPU, MEMORY",
    "         from management ports alone (odradek top --help)",
)


class Page:
    """`figures` is None before the first sample."""

    def __init__(self, where: str, *, panel: str = OVERVIEW, filter_text: str = "") -> None:
        self._where = where
        self.panel = panel
        self.figures: ClusterFigures | None = None
        self.problem: str | None = None
        self.is_paused = False
        self.filter = filter_text
        self._is_typing = False
        self._shows_help = False
        self._first = 0
        self._rows_shown = 1
        self._columns_shown: list[str] = []
        self.orders = {panel.name: Order(panel.sort) for panel in PANELS}

    def update(self, figures: ClusterFigures) -> None:
        """Takes new figures, unless the page is paused."""
        self.problem = None
        if not self.is_paused:
            self.figures = figures

    # Keys

    def press(self, key: str) -> bool:
        """Carries out a key; returns whether the page goes on."""
        if self._is_typing:
            self._type(key)
            return True
        if self._shows_help:
            self._shows_help = False
            return key != "q"
        if key == "q":
            return False
        if key in {"?", "h"}:
            self._shows_help = True
        elif key in {"p", " "}:
            self.is_paused = not self.is_paused
        elif key == "/":
            self._is_typing = True
        elif key == "escape":
            self.filter = ""
        elif key in {"s", "S"} or key == "r":
            self._sort(key)
        else:
            self._move(key)
        return True

    def _type(self, key: str) -> None:
        self._first = 0
        if key == "enter":
            self._is_typing = False
        elif key == "escape":
            self._is_typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _sort(self, key: str) -> None:
        order = self.orders.get(self.panel)
        if order is None:
            return
        if key == "r":
            self.orders[self.panel] = order._replace(ascending=not order.ascending)
            return
        headers = self._columns_shown or [column.header for column in _BY_NAME[self.panel].columns]
        at = headers.index(order.header) if order.header in headers else -1
        step = 1 if key == "s" else -1
        self.orders[self.panel] = Order(headers[(at + step) % len(headers)])
        self._first = 0

    def _move(self, key: str) -> None:
        if key in {"tab", "backtab", "right", "left"}:
            step = 1 if key in {"tab", "right"} else -1
            self.panel = NAMES[(NAMES.index(self.panel) + step) % len(NAMES)]
            self._first = 0
        elif len(key) == 1 and key.isdecimal() and 1 <= int(key) <= len(NAMES):
            self.panel = NAMES[int(key) - 1]
            self._first = 0
        else:
            moves = {
                "down": 1,
                "j": 1,
                "up": -1,
                "k": -1,
                "pagedown": self._rows_shown,
                "pageup": -self._rows_shown,
                "end": 1 << 40,
                "home": -(1 << 40),
            }
            self._first += moves.get(key, 0)

    # Lines

    def lines(self, width: int, height: int) -> list[Line]:
        """Returns exactly `height` lines, none of which is wider than `width`."""
        room = max(height - _HEAD_LINES - _FOOT_LINES, 0)
        if self._shows_help:
            body: list[Line] = [[Span(text)] for text in _HELP]
        elif self.figures is None:
            body = [[Span(f"asking {self._where} ...", "dim")]]
        elif self.panel == OVERVIEW:
            body = self._overview(self.figures, width, room)
        else:
            body = self._panel(self.figures, _BY_NAME[self.panel], width, room)
        body = body[:room]
        body += [[] for _ in range(room - len(body))]
        lines = [self._title(width), self._totals(width), self._tabs(), *body, self._foot()]
        # In a terminal that is not high enough, the last line and the first ones are kept.
        kept = [*lines[: max(height - 1, 0)], lines[-1]][-height:] if height else []
        return [cut(line, width) for line in kept]

    def _title(self, width: int) -> Line:
        figures = self.figures
        if figures is None:
            return [Span("odradek top", "bold")]
        clock = datetime.fromtimestamp(figures.at_ms / 1000).astimezone().strftime("%H:%M:%S")
        left = f"odradek top  cluster {clean(figures.cluster_id) or '-'}"
        passed = "" if figures.interval_s is None else f"  over {figures.interval_s:.1f} s"
        right = f"{clock}{passed}"
        line = [Span(fitted(left, max(width - len(right) - 9, 1)), "bold")]
        line.append(
            Span(" PAUSED " if self.is_paused else " " * 8, "chosen" if self.is_paused else "")
        )
        return [*line, Span(f" {right}")]

    def _totals(self, width: int) -> Line:
        """Returns the sums of the cluster, the most important first: as many as fit."""
        figures = self.figures
        if figures is None:
            return []
        there = [broker for broker in figures.brokers if broker.state != "gone"]
        wrong = [group for group in figures.groups if group.status in {"WARN", "ERR"}]
        worst = max((group.lag_seconds or 0.0 for group in figures.groups), default=0.0)
        brokers = f"{len(there)}/" + counted(len(figures.brokers), "broker")
        spans = [
            Span(brokers, _alarm(len(there) < len(figures.brokers))),
            Span(f"{figures.offline} offline", _alarm(figures.offline)),
            Span(f"{figures.under_replicated} URP", _alarm(figures.under_replicated)),
            Span(
                f"{len(wrong)}/" + counted(len(figures.groups), "group") + " not OK",
                _alarm(len(wrong)),
            ),
            Span(f"in {size(total([broker.bytes_in for broker in figures.brokers]))}/s"),
            Span(f"{count(total([topic.messages_in for topic in figures.topics]))} rec/s"),
            Span(f"out {size(total([broker.bytes_out for broker in figures.brokers]))}/s"),
            Span(f"{count(total([broker.requests for broker in figures.brokers]))} req/s"),
            Span(f"furthest behind {shown_seconds(worst)}"),
            Span(counted(len(figures.topics), "topic")),
            Span(counted(len(figures.partitions), "partition")),
        ]
        line: Line = []
        for span in spans:
            width -= len(span.text) + (2 if line else 0)
            if width < 0:
                break
            line += [Span("  "), span] if line else [span]
        return line

    def _tabs(self) -> Line:
        line: Line = []
        for number, name in enumerate(NAMES, 1):
            line.append(Span(f" {number} {name} ", "chosen" if name == self.panel else "dim"))
        if self.filter and not self._is_typing:
            line.append(Span(f"  /{clean(self.filter)}", "warn"))
        return line

    def _foot(self) -> Line:
        if self._is_typing:
            return [Span(f"show only: {clean(self.filter)}"), Span(" ", "chosen")]
        if self.problem is not None:
            return [Span(clean(self.problem), "bad")]
        if self.figures is not None and self.figures.notes:
            return [Span(clean(f"not known: {self.figures.notes[0]}"), "warn")]
        keys = "q quit  1-6 Tab panel  s sort  r reverse  / filter  p pause  ? help"
        return [Span(keys, "dim")]

    def rows_of(self, figures: ClusterFigures, panel: Panel) -> list[Any]:
        """Returns the rows of a panel as they are shown: filtered and sorted."""
        rows = matching(panel, list(panel.rows(figures)), self.filter)
        return sorted_rows(panel, rows, self.orders[panel.name])

    def _panel(self, figures: ClusterFigures, panel: Panel, width: int, room: int) -> list[Line]:
        rows = self.rows_of(figures, panel)
        self._rows_shown = max(room - 1, 1)
        self._first = max(min(self._first, len(rows) - self._rows_shown), 0)
        self._columns_shown = [one.header for one, _ in fitting_columns(panel, rows, width)]
        order = self.orders[panel.name]
        return table_lines(panel, rows, order, width, first=self._first, count=self._rows_shown)

    def _overview(self, figures: ClusterFigures, width: int, room: int) -> list[Line]:
        """Returns the sections below each other. Lines are given out one by one, so that a short
        section leaves its share to the others."""
        self._columns_shown = []
        is_spacious = room >= _SPACIOUS
        sections = _MORE_SECTIONS if is_spacious else _SECTIONS
        rows = {panel.name: self.rows_of(figures, panel) for panel in sections}
        left = room - len(sections) - (len(sections) - 1 if is_spacious else 0)
        shares = dict.fromkeys(rows, 0)
        while left > 0:
            hungry = [name for name in rows if shares[name] < max(len(rows[name]), 1)]
            if not hungry:
                break
            for name in hungry[:left]:
                shares[name] += 1
            left -= len(hungry[:left])
        lines: list[Line] = []
        for panel in sections:
            if lines and is_spacious:
                lines.append([])
            order = self.orders[panel.name]
            lines += table_lines(panel, rows[panel.name], order, width, count=shares[panel.name])
        return lines


def _alarm(number: int | bool) -> str:
    return "bad" if number else ""
