"""Finds the endpoint for a method and a path, in a tree of path segments.

A path is split before it is unquoted, so `%2F` in a segment is a part of a name and not a
separator: subjects and groups may have names like `a/b`. A literal segment wins over a parameter;
`{id:int}` matches digits only, `{name}` any text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from odradek.web.endpoints import Endpoint

_MAX_DIGITS: Final = 18
"""A longer number matches no `{id:int}`, so it is not the id of anything."""


@dataclass(slots=True)
class _Node:
    methods: dict[str, Endpoint] = field(default_factory=dict)
    literals: dict[str, "_Node"] = field(default_factory=dict)
    numbers: "tuple[str, _Node] | None" = None
    texts: "tuple[str, _Node] | None" = None


@dataclass(frozen=True, slots=True)
class Found:
    """What there is at a path: an endpoint for each method, and the values of its parameters."""

    methods: Mapping[str, Endpoint]
    parameters: dict[str, str | int]

    def endpoint(self, method: str) -> Endpoint | None:
        """Returns the endpoint of a method. HEAD is GET without a body."""
        return self.methods.get("GET" if method == "HEAD" else method)


class Routes:
    """All endpoints of a service."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            node = self._root
            for segment in _segments(endpoint.path):
                node = _below(node, segment)
            if endpoint.method in node.methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
            node.methods[endpoint.method] = endpoint

    def find(self, raw_path: str) -> Found | None:
        """Returns what there is at a path as the client sent it, without its query."""
        segments = [unquote(segment) for segment in _segments(raw_path)]
        values: dict[str, str | int] = {}
        node = _search(self._root, segments, 0, values)
        return None if node is None else Found(node.methods, values)


def _segments(path: str) -> list[str]:
    """Returns the segments. A slash at the end changes nothing, as in most HTTP services."""
    path = path.strip("/")
    return path.split("/") if path else []


def _below(node: _Node, segment: str) -> _Node:
    if not (segment.startswith("{") and segment.endswith("}")):
        return node.literals.setdefault(segment, _Node())
    name, _, kind = segment[1:-1].partition(":")
    known = node.numbers if kind == "int" else node.texts
    if known is None:
        known = (name, _Node())
        if kind == "int":
            node.numbers = known
        else:
            node.texts = known
    if known[0] != name:
        raise ValueError(f"the parameter {known[0]} is called {name} in another path")
    return known[1]


def _search(
    node: _Node, segments: list[str], index: int, values: dict[str, str | int]
) -> _Node | None:
    if index == len(segments):
        return node if node.methods else None
    segment = segments[index]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _search(literal, segments, index + 1, values)
        if found is not None:
            return found
    for choice, is_number in ((node.numbers, True), (node.texts, False)):
        if choice is None or not segment:
            continue
        if is_number and not (segment.isascii() and segment.isdigit()):
            continue
        if is_number and len(segment) > _MAX_DIGITS:
            continue
        name, child = choice
        found = _search(child, segments, index + 1, values)
        if found is not None:
            values[name] = int(segment) if is_number else segment
            return found
    return None
