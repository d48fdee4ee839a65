"""Where a topology begins: sources by topic. `build` makes a plan of all that was added."""

from collections.abc import Callable
from typing import Any

from odradek.streams.dsl.streams import Stream
from odradek.streams.dsl.tables import Table
from odradek.streams.formats import primitives
from odradek.streams.plan import nodes
from odradek.streams.plan.drawing import draw
from odradek.streams.plan.nodes import Codec, Node, Plan
from odradek.streams.plan.records import RecordContext

TimestampOf = Callable[[Any, Any, RecordContext], int]


class StreamsBuilder:
    """Collects the operators of a topology, and gives them names."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._names: set[str] = set()

    def stream(
        self,
        topic: str,
        *,
        key: Codec = primitives.STRING,
        value: Codec = primitives.JSON,
        timestamp_of: TimestampOf | None = None,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """Returns the records of a topic. `timestamp_of(key, value, context)` gives the time of a
        record, in place of the record's own timestamp."""
        _check_topic(topic)
        node = nodes.Source(
            name=self.name("stream", name), topic=topic, key_codec=key, value_codec=value,
            timestamp_of=timestamp_of,
        )  # fmt: skip
        return Stream(self, self.add(node), key, value)

    def table(
        self,
        topic: str,
        *,
        key: Codec = primitives.STRING,
        value: Codec = primitives.JSON,
        timestamp_of: TimestampOf | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[Any, Any]:
        """Returns a topic as a table: the newest record of a key is its row."""
        _check_topic(topic)
        name = self.name("table", name)
        node = nodes.TableSource(
            name=name, topic=topic, key_codec=key, value_codec=value,
            timestamp_of=timestamp_of, store=store or f"{name}-rows",
        )  # fmt: skip
        return Table(self, self.add(node), key, value)

    def build(self) -> Plan:
        """Returns the plan. A topology that writes nothing and calls nothing is refused."""
        parents = {parent for node in self._nodes for parent in node.parents}
        ends = tuple(node for node in self._nodes if node not in parents)
        if not ends:
            raise ValueError("the topology is empty: begin with stream() or table()")
        return Plan(ends)

    def describe(self) -> str:
        """Returns a picture of the topology."""
        return draw(self.build())

    # For the classes of this package

    def add(self, node: Node) -> Node:
        self._nodes.append(node)
        return node

    def name(self, kind: str, given: str | None = None) -> str:
        if given is not None and given in self._names:
            raise ValueError(f"two operators cannot both be called {given!r}")
        name = given or f"{kind}-{len(self._names) + 1}"
        self._names.add(name)
        return name


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"a topic is named by text, not by {topic!r}")
