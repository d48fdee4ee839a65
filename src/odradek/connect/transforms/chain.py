"""The transforms of a connector, one after the other, each with the predicate that selects its
records:

    transforms=route
    transforms.route.type=org.apache.kafka.connect.transforms.RegexRouter
    transforms.route.predicate=isOrder
    transforms.route.negate=true
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.connect.records import Record
from odradek.connect.transforms.transform import Predicate, R, Transform


class Link(NamedTuple):
    """A transform under the name that the configuration gives to it."""

    name: str
    transform: Transform
    predicate: Predicate | None = None
    is_negated: bool = False
    class_name: str = ""
    """The class of the transform, as the configuration names it."""

    def selects(self, record: Record) -> bool:
        return self.predicate is None or self.predicate.test(record) is not self.is_negated

    def apply(self, record: R) -> R | None:
        return self.transform.apply(record) if self.selects(record) else record


class Chain:
    def __init__(self, links: Sequence[Link]) -> None:
        self.links = tuple(links)

    def apply(self, record: R) -> R | None:
        """Returns the record after all transforms, or None if one of them dropped it."""
        changed: R | None = record
        for link in self.links:
            if changed is None:
                return None
            changed = link.apply(changed)
        return changed


def properties_below(prefix: str, properties: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the properties whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): text
        for name, text in properties.items()
        if name.startswith(prefix)
    }
