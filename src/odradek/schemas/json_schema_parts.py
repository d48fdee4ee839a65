"""A JSON Schema as a graph of parts, one for each kind of value that it speaks about.

A schema object is a conjunction: `{"type": "object", "properties": ..., "enum": [...]}` says
something about objects and lists values. Here each such statement is a `Part` of one kind. An
object that makes several is a `combined` part, as is `allOf`, `anyOf`, `oneOf` or a list of types.
The comparison works with parts, because Confluent's registry does: its rules are about kinds.

`$ref` is a part whose `target` is the part referred to. Each schema object is one part, however
many places refer to it, so that recursive schemas are finite graphs.
"""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

from odradek.schemas.json_text import print_json

NO_VALUE: Final = object()


@dataclass(eq=False)
class Part:
    """One statement about values.

    `kind` is `true`, `false`, `empty` (of `{}`), `enum`, `const`, `not`, `condition`, `boolean`,
    `null`, `string`, `number`, `array`, `object`, `combined` or `ref`. `limits` has keywords with
    plain values, `inner` those with one schema, such as `items` or `additionalProperties`.
    """

    kind: str
    default: Any = NO_VALUE
    connect_type: Any = None
    limits: dict[str, Any] = field(default_factory=dict)
    inner: dict[str, "Part"] = field(default_factory=dict)
    # Of objects:
    properties: dict[str, "Part"] = field(default_factory=dict)
    patterns: dict[str, "Part"] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    dependent_names: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_parts: dict[str, "Part"] = field(default_factory=dict)
    # Of arrays: one schema for each position
    positions: list["Part"] = field(default_factory=list)
    is_closed: bool = False  # additionalProperties or additionalItems is false
    # Of combined parts: allOf, anyOf or oneOf
    criterion: str = ""
    members: list["Part"] = field(default_factory=list)
    # Of references
    reference: str = ""
    target: "Part | None" = None

    @property
    def has_default(self) -> bool:
        return self.default is not NO_VALUE

    def resolved(self) -> "Part":
        """Returns the part that a chain of references ends at."""
        part = self
        seen = set()
        while part.target is not None and id(part) not in seen:
            seen.add(id(part))
            part = part.target
        return part

    @cached_property
    def fingerprint(self) -> bytes:
        """Equal for parts that say the same. Members of a combined part that are equal count
        once."""
        said = (
            self.kind,
            self.reference,
            self.criterion,
            self.is_closed,
            print_json(self.default) if self.has_default else "",
            sorted((key, print_json(value)) for key, value in self.limits.items()),
            _fingerprints(self.inner),
            _fingerprints(self.properties),
            _fingerprints(self.patterns),
            sorted(self.required),
            sorted((key, sorted(names)) for key, names in self.dependent_names.items()),
            _fingerprints(self.dependent_parts),
            [part.fingerprint for part in self.positions],
            [part.fingerprint for part in self.members],
        )
        return blake2b(repr(said).encode(), digest_size=16).digest()


def _fingerprints(parts: dict[str, Part]) -> list[tuple[str, bytes]]:
    return sorted((key, part.fingerprint) for key, part in parts.items())
