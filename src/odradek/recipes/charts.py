"""Charts of results: as text for a terminal, and as a PNG file if matplotlib is installed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_STEPS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_STACK = "█▓▒░"


class Chart(Protocol):
    """A chart that can be printed as text or drawn."""

    @property
    def title(self) -> str: ...

    def text(self, width: int) -> str: ...

    def draw(self, axes: Any) -> None:
        """Draws the chart on matplotlib's axes."""


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each label, made of one or several parts."""

    title: str
    rows: Sequence[tuple[str, Sequence[float]]]
    parts: Sequence[str] = ()

    def text(self, width: int) -> str:
        names = max((len(label) for label, _ in self.rows), default=0)
        totals = [sum(values) for _, values in self.rows]
        numbers = max((len(_number(total)) for total in totals), default=0)
        room = max(10, width - names - numbers - 4)
        most = max(totals, default=0) or 1
        lines = [self.title]
        if self.parts:
            legend = (f"{_STACK[i % 4]} {name}" for i, name in enumerate(self.parts))
            lines.append("  " + "   ".join(legend))
        for (label, values), total in zip(self.rows, totals, strict=True):
            bar, drawn, reached = "", 0, 0.0
            for index, value in enumerate(values):
                reached += value
                # Rounds the running total, not each part, so that rounding errors do not add up.
                end = round(reached / most * room)
                bar += _STACK[index % 4] * (end - drawn)
                drawn = end
            lines.append(f"  {label:<{names}} {_number(total):>{numbers}} {bar}".rstrip())
        return "\n".join(lines)

    def draw(self, axes: Any) -> None:
        labels = [label for label, _ in self.rows]
        lefts = [0.0] * len(labels)
        for index in range(max((len(values) for _, values in self.rows), default=0)):
            widths = [values[index] for _, values in self.rows]
            name = self.parts[index] if index < len(self.parts) else None
            axes.barh(labels, widths, left=lefts, label=name)
            lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
        axes.invert_yaxis()
        if self.parts:
            axes.legend()


@dataclass(frozen=True, slots=True)
class Trends:
    """A line for each name, all with the same scale."""

    title: str
    lines: Mapping[str, Sequence[float]]

    def text(self, width: int) -> str:
        values = [value for line in self.lines.values() for value in line]
        least, most = min(values, default=0.0), max(values, default=0.0)
        span = (most - least) or 1
        names = max(map(len, self.lines), default=0)
        shown = [f"{self.title} ({_number(least)} to {_number(most)})"]
        for name, line in self.lines.items():
            room = max(10, width - names - 14)
            points = _thinned(line, room)
            drawn = "".join(_STEPS[round((point - least) / span * 7)] for point in points)
            last = _number(line[-1]) if line else ""
            shown.append(f"  {name:<{names}} {drawn} {last}")
        return "\n".join(shown)

    def draw(self, axes: Any) -> None:
        for name, line in self.lines.items():
            axes.plot(range(len(line)), line, label=name)
        axes.legend()


def _thinned(line: Sequence[float], most: int) -> list[float]:
    if len(line) <= most:
        return list(line)
    return [line[index * len(line) // most] for index in range(most)]


@dataclass(frozen=True, slots=True)
class Grid:
    """A number for each row and column, shown darker if it is larger."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]

    def text(self, width: int) -> str:
        values = [value for _, row in self.rows for value in row]
        least, most = min(values, default=0.0), max(values, default=0.0)
        span = (most - least) or 1
        names = max((len(label) for label, _ in self.rows), default=0)
        cell = max([len(column) for column in self.columns] + [6])
        head = " ".join(f"{column:>{cell}}" for column in self.columns)
        lines = [self.title, f"  {'':<{names}} {head}"]
        for label, row in self.rows:
            cells = []
            for value in row:
                shade = _SHADES[round((value - least) / span * 4)]
                cells.append(f"{shade * 2}{value:>{cell - 2}.1f}")
            lines.append(f"  {label:<{names}} {' '.join(cells)}")
        return "\n".join(lines)

    def draw(self, axes: Any) -> None:
        axes.imshow([list(row) for _, row in self.rows], aspect="auto", cmap="YlOrRd")
        axes.set_xticks(range(len(self.columns)), self.columns)
        axes.set_yticks(range(len(self.rows)), [label for label, _ in self.rows])


def save_png(path: str, charts: Sequence[Chart]) -> None:
    """Writes all charts below one another. Needs matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it is not there for everybody

    figure = Figure(figsize=(9, 3.4 * len(charts)), layout="constrained")
    for index, chart in enumerate(charts, start=1):
        axes = figure.add_subplot(len(charts), 1, index)
        axes.set_title(chart.title)
        chart.draw(axes)
    figure.savefig(path, dpi=110, format="png")
