"""The compatibility levels of a schema registry.

A level says which of two schemas must be able to read what the other one wrote, and whether only
the newest earlier schema counts or all of them:

    BACKWARD   the new schema reads what the earlier one wrote: upgrade consumers first
    FORWARD    the earlier schema reads what the new one writes: upgrade producers first
    FULL       both
    NONE       nothing is checked

With `_TRANSITIVE`, every earlier schema counts. docs/schema-compatibility.md says what each format
allows. The rules of the formats are in their modules; here is only which pairs are compared.
"""

from collections.abc import Sequence
from enum import StrEnum

from odradek.schemas.parsed import Incompatibility, ParsedSchema


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")


def incompatibilities(reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
    """Returns why `reader` cannot read what was written with `writer`. An empty list says that it
    can."""
    if reader.schema_type != writer.schema_type:
        return [
            Incompatibility(
                "SCHEMA_TYPE_CHANGED",
                "",
                f"Incompatible because of different schema type: the {{reader}} schema is"
                f" {reader.schema_type}, the {{writer}} schema is {writer.schema_type}",
            )
        ]
    try:
        return reader.incompatibilities_with(writer)
    except RecursionError:
        return [
            Incompatibility(
                "SCHEMA_TOO_DEEP", "", "The schemas are nested too deeply to be compared"
            )
        ]


def check(
    level: Level, new: ParsedSchema, earlier: Sequence[ParsedSchema]
) -> list[Incompatibility]:
    """Returns why `new` may not follow the schemas in `earlier` (oldest first) at this level.

    The newest earlier schema is compared first, and the answer is about the first one that `new`
    does not fit: later ones are not compared. Messages call the schemas "new" and "old".
    """
    compared = list(reversed(earlier)) if level.is_transitive else list(earlier[-1:])
    for old in compared:
        found = []
        if level.is_forward:
            found += _named(incompatibilities(old, new), reader="old", writer="new")
        if level.is_backward:
            found += _named(incompatibilities(new, old), reader="new", writer="old")
        if found:
            return found
    return []


def _named(found: list[Incompatibility], reader: str, writer: str) -> list[Incompatibility]:
    return [one._replace(message=one.sentence(reader, writer)) for one in found]
