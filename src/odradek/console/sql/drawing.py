"""Pictures of plans: the steps of a query from its topics to its topics, as boxes and arrows.

A SQL server explains a query by a text: ours draws a tree of operators, ksqlDB has the description
of Kafka Streams, in parts with topics between. Both become a graph of topics and steps. Each box
is one row below the lowest of those before it, and near the middle of them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

BOX_WIDTH: Final = 230
BOX_HEIGHT: Final = 42
_GAP_X: Final = 24
_GAP_Y: Final = 24
_MARGIN: Final = 8
_MAX_BOXES: Final = 300
_SHOWN: Final = 32
# Of our server: `  -> filter-2 detail`, and of Kafka Streams: `Source: NAME (topics: [a, b])`.
_OPERATOR: Final = re.compile(r"^(?P<indent> *)(?:-> )?(?P<name>\S+) ?(?P<rest>.*)$")
_STREAMS: Final = re.compile(
    r"^\s*(?P<kind>Source|Processor|Sink): (?P<name>\S+)(?: \((?P<rest>.*)\))?"
)
_STREAMS_TOPICS: Final = re.compile(r"topics?: \[?([^\])]*)")


@dataclass(slots=True)
class Box:
    """A topic or a step, and where it is drawn. `x` is of its left side."""

    name: str
    detail: str = ""
    is_topic: bool = False
    row: int = 0
    x: float = 0.0

    @property
    def y(self) -> float:
        return float(_MARGIN + self.row * (BOX_HEIGHT + _GAP_Y))

    @property
    def shown_name(self) -> str:
        return _shortened(self.name)

    @property
    def shown_detail(self) -> str:
        return "topic" if self.is_topic else _shortened(self.detail)


@dataclass(slots=True)
class Picture:
    """A plan as boxes and arrows between them."""

    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[tuple[str, str]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT

    def topic(self, name: str) -> str:
        key = f"topic {name}"
        self.boxes.setdefault(key, Box(name, is_topic=True))
        return key

    def step(self, name: str, detail: str = "") -> str:
        box = self.boxes.setdefault(name, Box(name))
        box.detail = box.detail or detail
        return name

    def arrow(self, start: str, end: str) -> None:
        if (start, end) not in self.arrows:
            self.arrows.append((start, end))

    def lines(self) -> list[tuple[float, float, float, float]]:
        """Returns where each arrow begins and ends."""
        return [
            (
                self.boxes[start].x + BOX_WIDTH / 2,
                self.boxes[start].y + BOX_HEIGHT,
                self.boxes[end].x + BOX_WIDTH / 2,
                self.boxes[end].y,
            )
            for start, end in self.arrows
        ]


def picture_of(topology: str) -> Picture | None:
    """Returns the picture of a plan, or None if the text is of neither kind or too large."""
    lines = [line for line in topology.splitlines() if line.strip()]
    if not lines:
        return None
    is_streams = any(_STREAMS.match(line) for line in lines)
    picture = _of_streams(lines) if is_streams else _of_operators(lines)
    if not picture.arrows or len(picture.boxes) > _MAX_BOXES:
        return None
    _place(picture)
    return picture


def _of_operators(lines: Iterable[str]) -> Picture:
    picture = Picture()
    above: list[str] = []
    for line in lines:
        match = _OPERATOR.match(line)
        if match is None:
            continue
        depth = len(match["indent"]) // 2
        name, rest = match["name"], match["rest"]
        topic, _, detail = rest.removeprefix("=> ").removeprefix("[").partition("]")
        if rest == "(below)":
            step = picture.step(name)
        elif rest.startswith("=> ["):
            step = picture.step(name, detail.strip())
            picture.arrow(step, picture.topic(topic))
        elif rest.startswith("["):
            step = picture.step(name, detail.strip())
            picture.arrow(picture.topic(topic), step)
        else:
            step = picture.step(name, rest)
        if 0 < depth <= len(above):
            picture.arrow(above[depth - 1], step)
        del above[depth:]
        above.append(step)
    return picture


def _of_streams(lines: Iterable[str]) -> Picture:
    picture = Picture()
    step = ""
    for line in lines:
        match = _STREAMS.match(line)
        if match is not None:
            rest = match["rest"] or ""
            topics = _STREAMS_TOPICS.search(rest)
            step = picture.step(match["name"], "" if topics is not None else rest)
            for topic in topics[1].split(",") if topics is not None else ():
                key = picture.topic(topic.strip())
                picture.arrow(*((step, key) if match["kind"] == "Sink" else (key, step)))
        elif step and line.strip().startswith("-->"):
            for name in line.strip().removeprefix("-->").split(","):
                if name.strip() not in ("", "none"):
                    picture.arrow(step, picture.step(name.strip()))
    return picture


def _place(picture: Picture) -> None:
    parents: dict[str, list[str]] = {key: [] for key in picture.boxes}
    for start, end in picture.arrows:
        parents[end].append(start)
    # The longest way from a beginning; a plan that reads what it writes has no such way, so the
    # number of rounds is bounded.
    for _ in range(len(picture.boxes)):
        moved = False
        for start, end in picture.arrows:
            below = picture.boxes[start].row + 1
            if picture.boxes[end].row < below <= len(picture.boxes):
                picture.boxes[end].row = below
                moved = True
        if not moved:
            break
    _lower(picture)
    rows: dict[int, list[str]] = {}
    for key, box in picture.boxes.items():
        rows.setdefault(box.row, []).append(key)
    step = BOX_WIDTH + _GAP_X
    widest = max(map(len, rows.values()))
    for row in sorted(rows):
        keys = sorted(
            rows[row],
            key=lambda key: (
                sum(picture.boxes[one].x for one in parents[key]) / max(1, len(parents[key]))
            ),
        )
        left = (widest - len(keys)) * step / 2
        for place, key in enumerate(keys):
            picture.boxes[key].x = _MARGIN + left + place * step
    picture.width = 2 * _MARGIN + widest * step - _GAP_X
    picture.height = 2 * _MARGIN + (max(rows) + 1) * (BOX_HEIGHT + _GAP_Y) - _GAP_Y


def _lower(picture: Picture) -> None:
    """Moves boxes down to just above what they lead to, so that few arrows pass other boxes."""
    children: dict[str, list[str]] = {}
    for start, end in picture.arrows:
        children.setdefault(start, []).append(end)
    for key in sorted(children, key=lambda one: -picture.boxes[one].row):
        box = picture.boxes[key]
        above = min(picture.boxes[child].row for child in children[key]) - 1
        box.row = max(box.row, above)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
