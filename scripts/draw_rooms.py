"""Draws docs/rooms.svg from the imports of the code, so that the picture stays true.

    python scripts/draw_rooms.py            writes the picture
    python scripts/draw_rooms.py --check    ends with 1 if the picture is out of date

A room is a package directly below `odradek`. Its row is its layer in pyproject.toml, which
import-linter checks. An arrow says "imports". Arrows that follow from others are left out: if A
imports B and B imports C, an import of C by A is not drawn (the transitive reduction).
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "odradek"
PICTURE = ROOT / "docs" / "rooms.svg"

_BOX_WIDTH, _BOX_HEIGHT = 130, 40
_COLUMN, _ROW = 160, 78
_MARGIN = 24
# Chosen so that no arrow passes behind a box, and few arrows cross. A new room gets the next column
# of its row.
_COLUMNS = {
    "cli": 2.0,
    "local": 1.0,
    "perf": 3.0,
    "console": 4.7,
    "tools": 3.5,
    "recipes": 2.5,
    "testing": 1.0,
    "ops": 4.0,
    "registry": 2.0,
    "connect": 3.0,
    "broker": 2.0,
    "spark": 3.0,
    "groups": 4.0,
    "transactions": 1.0,
    "cluster": 0.0,
    "replication": 2.0,
    "storage": 1.5,
    "metadata": 2.5,
    "web": 4.5,
    "security": 0.0,
    "client": 3.5,
    "schemas": 4.5,
    "statemachine": 4.0,
    "protocol": 3.0,
    "telemetry": 1.5,
    "config": 0.5,
    "world": 1.5,
}

Graph = dict[str, set[str]]


def layers() -> list[list[str]]:
    """Returns the rooms of each layer, from top to bottom, as pyproject.toml declares them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [[room.strip(" ()") for room in layer.split("|")] for layer in declared]
    return [[room for room in row if (SOURCE / room).is_dir()] for row in rows]


def _imported(module: Path) -> Iterator[str]:
    """Yields the rooms that a module imports, also within functions and for types only."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "odradek":
                names = [f"odradek.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "odradek" and len(parts) > 1:
                yield parts[1]


def imports(rooms: list[str]) -> Graph:
    """Returns which rooms each room imports."""
    return {
        room: {
            name
            for module in (SOURCE / room).rglob("*.py")
            for name in _imported(module)
            if name in rooms and name != room
        }
        for room in rooms
    }


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for room in graph[waiting.pop()]:
            if room not in found:
                found.add(room)
                waiting.append(room)
    return found


def reduced(graph: Graph) -> Graph:
    """Returns the graph without arrows that follow from others."""
    return {
        room: {
            target
            for target in targets
            if not any(target in _reachable(graph, other) for other in targets - {target})
        }
        for room, targets in graph.items()
    }


def _places(rows: list[list[str]]) -> dict[str, tuple[float, float]]:
    places = {}
    for number, row in enumerate(rows):
        for index, room in enumerate(row):
            column = _COLUMNS.get(room, float(index))
            places[room] = (_MARGIN + column * _COLUMN, _MARGIN + number * _ROW)
    return places


def draw() -> str:
    rows = [row for row in layers() if row]
    rooms = [room for row in rows for room in row]
    places = _places(rows)
    width = max(x for x, _ in places.values()) + _BOX_WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _BOX_HEIGHT + _MARGIN
    size = f"{width:g} {height:g}"
    head = "".join(
        (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"',
            ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#888"/></marker>',
        )
    )
    style = 'font-family="sans-serif" font-size="15"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" {style}>',
        f"<defs>{head}</defs>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    graph = reduced(imports(rooms))
    for room in rooms:
        lines += [_arrow(places[room], places[target]) for target in sorted(graph[room])]
    lines += [_box(room, *places[room]) for room in rooms]
    return "\n".join([*lines, "</svg>", ""])


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + _BOX_WIDTH / 2, start[1] + _BOX_HEIGHT
    x2, y2 = end[0] + _BOX_WIDTH / 2, end[1] - 1
    bend = (y2 - y1) / 2
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"'
        ' fill="none" stroke="#888" stroke-width="1.5" marker-end="url(#head)"/>'
    )


def _box(room: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6"'
        ' fill="#eef3f8" stroke="#456"/>'
        f'<text x="{x + _BOX_WIDTH / 2:g}" y="{y + 25:g}" text-anchor="middle">{room}</text>'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, and write nothing")
    arguments = parser.parse_args()
    drawn = draw()
    if not arguments.check:
        PICTURE.write_text(drawn)
        return 0
    if PICTURE.exists() and PICTURE.read_text() == drawn:
        return 0
    sys.stderr.write("docs/rooms.svg is out of date; run: python scripts/draw_rooms.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
