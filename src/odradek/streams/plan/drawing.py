"""Draws a plan as text: from each source down, one operator a line."""

from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Node, Plan


def draw(plan: Plan) -> str:
    """Returns the picture. An operator with several parents is drawn below the last of them; the
    others point to it by its name."""
    children: dict[Node, list[Node]] = {node: [] for node in plan.nodes}
    waiting: dict[Node, int] = {}
    for node in plan.nodes:
        waiting[node] = len(dict.fromkeys(node.parents))
        for parent in dict.fromkeys(node.parents):
            children[parent].append(node)
    lines: list[str] = []

    def show(node: Node, depth: int) -> None:
        indent = "  " * depth
        arrow = "-> " if depth else ""
        waiting[node] -= 1
        if waiting[node] > 0:
            lines.append(f"{indent}{arrow}{node.name} (below)")
            return
        lines.append(f"{indent}{arrow}{_line(node)}")
        below = children[node]
        # A chain stays in its column, so that long ones are readable.
        for child in below:
            show(child, depth + 1)

    for source in plan.sources:
        waiting[source] = 1
        show(source, 0)
    return "\n".join(lines)


def _line(node: Node) -> str:
    parts = [node.name]
    if isinstance(node, nodes.Source):
        parts.append(f"[{node.topic}]")
    elif isinstance(node, nodes.Sink):
        parts.append(f"=> [{node.topic}]")
    if node.detail:
        parts.append(node.detail)
    if isinstance(node, nodes.Repartition):
        parts.append("to the partition of its key")
    if node.stores:
        parts.append(f"({'stores' if len(node.stores) > 1 else 'store'}: {', '.join(node.stores)})")
    return " ".join(parts)
