"""`odradek top --once` and `--json`: the same figures for scripts, printed once."""

import argparse
import asyncio
import sys
from typing import Final

from odradek.cli.lag.query_options import queries_of
from odradek.cli.parser import terminal_columns
from odradek.cli.top.page import OVERVIEW, Page
from odradek.cli.top.panels import PANELS
from odradek.cli.top.styled import plain_text, written
from odradek.cli.top.tables import table_lines
from odradek.ops.top.figures import ClusterFigures
from odradek.ops.top.monitor import Monitor, MonitorAdmin
from odradek.tools.admin_session import open_admin
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json, shows_colours
from odradek.world.clock import SystemClock

# Rows of each table, unless one panel was asked for.
_FEW: Final = 10
# If standard output is not a terminal, nothing is left out.
_WIDE: Final = 250


async def print_once(arguments: argparse.Namespace, page: Page) -> int:
    """Takes two samples, `--interval` apart, so that there are rates; with an interval of 0 one."""
    async with open_admin(MonitorAdmin, arguments) as admin:
        monitor = Monitor(admin, SystemClock(), arguments.ports, queries_of(arguments))
        figures = await monitor.refresh()
        if arguments.interval:
            await asyncio.sleep(arguments.interval)
            figures = await monitor.refresh()
    for note in figures.notes:
        hint(f"not known: {note}")
    if arguments.json:
        print_json(figures.to_json())
    else:
        _print(figures, page)
    return 0


def _print(figures: ClusterFigures, page: Page) -> None:
    columns = terminal_columns() if sys.stdout.isatty() else _WIDE
    colours = shows_colours()
    is_first = True
    for panel in PANELS:
        if page.panel not in {OVERVIEW, panel.name}:
            continue
        rows = page.rows_of(figures, panel)
        shown = rows[:_FEW] if page.panel == OVERVIEW else rows
        if not is_first:
            print()
        is_first = False
        for line in table_lines(
            panel, shown, page.orders[panel.name], columns, count=max(len(shown), 1)
        ):
            print(written(line, colours=True) if colours else plain_text(line))
        if len(shown) < len(rows):
            print(f"... {len(rows) - len(shown)} more; --panel {panel.name} shows all")
