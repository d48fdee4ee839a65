"""The image of a tree of nodes, for tests of every room."""

from collections.abc import Mapping

from odradek.metadata.image import ClusterImage
from odradek.metadata.image_builder import build_image, run_at_once
from odradek.metadata.store import Node


def image_of(nodes: Mapping[str, Node], number: int = 1) -> ClusterImage:
    """The image of a whole tree, built in one go."""
    return run_at_once(build_image(nodes, number))
