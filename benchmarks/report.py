"""Writes results as a table, and into docs/performance.md with a plot.

Only the part between two markers of the page is replaced; the words around it are written by hand.
"""

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Better, Comparison

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
PLOT = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.1 or value == 0 else f"{value:.3f}"


def verdict(comparison: Comparison) -> str:
    if comparison.goal is None:
        return ""
    met = {True: "met", False: "**missed**", None: "?"}[comparison.is_met]
    return f"{comparison.goal.text(comparison.kind.better)} {met}"


def cells(comparison: Comparison) -> list[str]:
    ratio = comparison.ratio
    return [
        comparison.name,
        comparison.kind.unit,
        number(comparison.ours),
        "" if comparison.theirs is None else number(comparison.theirs),
        "" if ratio is None else f"{ratio:.2f}x",
        verdict(comparison),
    ]


# Bars end here; the number beside them does not.
WORST_SHOWN = 0.1

HEADINGS = ("figure", "unit", "Odradek", "Apache Kafka", "ratio", "goal")


def plain_table(comparisons: Sequence[Comparison]) -> str:
    rows = [list(HEADINGS), *(cells(comparison) for comparison in comparisons)]
    rows = [[cell.replace("**", "") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if column in (0, 1, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return "\n".join(lines)


def markdown_table(comparisons: Sequence[Comparison]) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "| --- | --- | ---: | ---: | ---: | --- |"]
    lines += ["| " + " | ".join(cells(comparison)) + " |" for comparison in comparisons]
    return "\n".join(lines)


def machine() -> str:
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores of {model}, {platform.system()}, {python}"


def write_plot(comparisons: Sequence[Comparison]) -> None:
    """Plots how many times better (right of 1) or worse (left) Odradek is, on a logarithmic
    axis."""
    import matplotlib  # noqa: PLC0415 - half a second that no other command needs to spend

    matplotlib.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    matplotlib.rcParams["svg.hashsalt"] = "odradek"
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, in a tenth of the size
    bars = [
        (one.name, one.ratio if one.kind.better is Better.HIGHER else 1 / one.ratio)
        for one in comparisons
        if one.ratio
    ]
    bars.reverse()
    names = [name for name, _ in bars]
    advantages = [max(advantage, WORST_SHOWN) for _, advantage in bars]
    figure, axes = pyplot.subplots(figsize=(9, 0.28 * len(bars) + 1.2))
    colours = ["#2a7f62" if advantage >= 1 else "#b5483a" for advantage in advantages]
    axes.barh(names, [advantage - 1 for advantage in advantages], left=1, color=colours)
    axes.set_xscale("log")
    axes.set_xlim(WORST_SHOWN / 1.2, max(advantages) * 1.5)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if tick < max(advantages) * 1.5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.margins(y=0.01)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times better than Apache Kafka (1 = the same)")
    axes.tick_params(axis="y", labelsize=8)
    for position, (_, advantage) in enumerate(bars):
        axes.annotate(f" {advantage:.2g}x", (max(advantage, 1), position), fontsize=7, va="center")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})
    pyplot.close(figure)


def write_page(comparisons: Sequence[Comparison], description: str) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [f"Measured on {time.strftime('%d %B %Y')}, {machine()}; {description}.", ""]
    if any(one.theirs for one in comparisons):
        write_plot(comparisons)
        parts += [f"![Odradek beside Apache Kafka]({PLOT.name})", ""]
    else:
        parts += ["Apache Kafka could not be had for this run: Odradek alone.", ""]
    parts.append(markdown_table(comparisons))
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after)
