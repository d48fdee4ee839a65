"""Whether JSON values that fit one schema fit another, by the rules of Confluent's registry.

The rules compare the two schemas keyword by keyword and never look at values. The result is a list
of differences that are not compatible. An object schema has one of three content models: open (any
other property may be there), closed (`additionalProperties` is false) or partially open (patterns
or a schema for the others), and what may be added or removed depends on it.

Not compared, as in Confluent's registry: `contains`, `propertyNames`, `format`, `if`/`then`/`else`
and the schemas under `patternProperties`. docs/schema-compatibility.md lists the rules.

A pair of parts that is being compared counts as compatible until it is proven not to be, so that
recursive schemas end. If that was assumed somewhere, all is compared again with what was found,
until nothing new is found. The number of comparisons is limited, because lists of alternatives are
compared each with each.
"""

from collections.abc import Callable, Generator, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from odradek.schemas.json_schema_document import matcher_of
from odradek.schemas.json_schema_messages import sentence
from odradek.schemas.json_schema_parts import Part
from odradek.schemas.json_text import print_json
from odradek.schemas.matching import has_matching
from odradek.schemas.parsed import Incompatibility

_MAX_COMPARISONS: Final = 100_000
_MAX_REPORTED: Final = 200
_EMPTY: Final = ("empty", "true")


class Difference(NamedTuple):
    type: str
    path: tuple[str, ...]


Found = list[Difference]
# Each function that compares asks for pairs of inner parts by yielding them, and is sent their
# differences. So the depth of a comparison is not limited by Python's stack: schemas whose parts
# refer to one another are compared through long chains of pairs.
Comparing = Generator[tuple[Part, Part], Found, Found]
_Pair = tuple[int, int]


class _TooMany(Exception):
    pass


def compare(writer: Part, reader: Part) -> list[Incompatibility]:
    """Returns why values that fit `writer` may not fit `reader`."""
    budget = [_MAX_COMPARISONS]
    known: dict[_Pair, Found] = {}
    try:
        while True:
            comparison = _Comparison(known, budget)
            found = comparison.parts(writer, reader)
            if not comparison.has_assumed or comparison.incompatible.keys() == known.keys():
                break
            known = comparison.incompatible
    except _TooMany:
        found = [Difference("SCHEMA_TOO_COMPLEX", ())]
    return [_incompatibility(difference) for difference in dict.fromkeys(found)]


def _incompatibility(difference: Difference) -> Incompatibility:
    path = "#/" + "/".join(difference.path)
    return Incompatibility(difference.type, path, sentence(difference.type, path))


class _Comparison:
    """One pass over both schemas. `known` are the incompatible pairs of the pass before."""

    def __init__(self, known: dict[_Pair, Found], budget: list[int]) -> None:
        self._known = known
        self._budget = budget
        self._done: dict[_Pair, Found] = {}
        self._open: set[_Pair] = set()
        self.incompatible: dict[_Pair, Found] = {}
        self.has_assumed = False

    def parts(self, writer: Part, reader: Part) -> Found:
        """Returns the differences of two parts, with paths that begin at them."""
        found = self._begun(writer, reader)
        stack: list[tuple[_Pair, Comparing]] = []
        while True:
            if not isinstance(found, list):
                # A pair that is compared for the first time.
                stack.append(found)
                answer: Found | None = None
            else:
                answer = found
            if not stack:
                return answer or []
            pair, comparing = stack[-1]
            try:
                asked = next(comparing) if answer is None else comparing.send(answer)
                found = self._begun(*asked)
            except StopIteration as end:
                stack.pop()
                found = self._ended(pair, end.value)

    def _begun(self, writer: Part, reader: Part) -> Found | tuple[_Pair, Comparing]:
        """Returns the differences of a pair that is known or being compared, or else how to find
        them."""
        writer, reader = writer.resolved(), reader.resolved()
        pair = (id(writer), id(reader))
        if pair in self._done:
            return self._done[pair]
        if pair in self._open:
            if pair in self._known:
                return self._known[pair]
            self.has_assumed = True
            return []
        self._budget[0] -= 1
        if self._budget[0] < 0:
            raise _TooMany
        self._open.add(pair)
        return pair, _compared(writer, reader)

    def _ended(self, pair: _Pair, found: Found) -> Found:
        self._open.discard(pair)
        self._done[pair] = found[:_MAX_REPORTED]
        if found:
            self.incompatible[pair] = self._done[pair]
        return self._done[pair]


def _within(path: str, writer: Part, reader: Part) -> Comparing:
    return _at(path, (yield writer, reader))


def _compared(writer: Part, reader: Part) -> Comparing:
    for before, after in (*_alternatives(writer, reader), *_members(writer, reader)):
        if not (yield before, after):
            return []
    if writer.kind != reader.kind:
        is_fine = (
            writer.kind == "false"
            or reader.kind in _EMPTY
            # Decimals that Connect's converter writes as bytes may change their notation.
            or (writer.connect_type == "bytes" and reader.connect_type == "bytes")
        )
        return [] if is_fine else [Difference("TYPE_CHANGED", ())]
    if writer.kind in _LEAVES:
        return _LEAVES[writer.kind](writer, reader)
    compare_kind = _KINDS.get(writer.kind)
    return [] if compare_kind is None else (yield from compare_kind(writer, reader))


def _alternatives(writer: Part, reader: Part) -> list[tuple[Part, Part]]:
    """A writer that is no combination may fit one of the reader's alternatives."""
    if writer.kind == "combined" or reader.kind != "combined":
        return []
    if len(reader.members) != 1 and reader.criterion == "allOf":
        return []
    return [(writer, member) for member in reader.members]


def _members(writer: Part, reader: Part) -> list[tuple[Part, Part]]:
    """One of the statements that a writer makes all together may be enough already."""
    if writer.kind != "combined" or reader.kind == "combined":
        return []
    if len(writer.members) != 1 and writer.criterion != "allOf":
        return []
    return [(member, reader) for member in writer.members]


def _at(path: str, found: Iterable[Difference]) -> Found:
    return [Difference(one.type, (path, *one.path)) for one in found]


# Limits: keywords with a number


def _limit(
    keyword: str, word: str, writer: Part, reader: Part, *, is_upper: bool
) -> Iterable[Difference]:
    """A limit may be removed or widened."""
    old, new = writer.limits.get(keyword), reader.limits.get(keyword)
    if new is None or old == new:
        return
    if old is None:
        yield Difference(f"{word}_ADDED", (keyword,))
    elif is_upper and Decimal(new) < Decimal(old):
        yield Difference(f"{word}_DECREASED", (keyword,))
    elif not is_upper and Decimal(new) > Decimal(old):
        yield Difference(f"{word}_INCREASED", (keyword,))


def _limits(writer: Part, reader: Part, *keywords: str) -> Found:
    found: Found = []
    for keyword in keywords:
        word = "".join(f"_{letter}" if letter.isupper() else letter for letter in keyword).upper()
        is_upper = "max" in keyword.lower()
        found += _limit(keyword, word, writer, reader, is_upper=is_upper)
    return found


# One function for each kind


def _strings(writer: Part, reader: Part) -> Found:
    found = _limits(writer, reader, "maxLength", "minLength")
    old, new = writer.limits.get("pattern"), reader.limits.get("pattern")
    if new is not None and old != new:
        word = "PATTERN_ADDED" if old is None else "PATTERN_CHANGED"
        found.append(Difference(word, ("pattern",)))
    return found


def _numbers(writer: Part, reader: Part) -> Found:
    found = _limits(writer, reader, "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
    old, new = writer.limits.get("multipleOf"), reader.limits.get("multipleOf")
    if old is None and new is not None:
        found.append(Difference("MULTIPLE_OF_ADDED", ("multipleOf",)))
    elif old is not None and new is not None and old != new:
        before, after = Fraction(old), Fraction(new)
        if after % before == 0:
            found.append(Difference("MULTIPLE_OF_EXPANDED", ("multipleOf",)))
        elif before % after != 0:
            found.append(Difference("MULTIPLE_OF_CHANGED", ("multipleOf",)))
    if reader.limits.get("integer") and not writer.limits.get("integer"):
        found.append(Difference("TYPE_NARROWED", ()))
    return found


def _enums(writer: Part, reader: Part) -> Found:
    old = {print_json(value, sort=True) for value in writer.limits["enum"]}
    new = {print_json(value, sort=True) for value in reader.limits["enum"]}
    if old <= new:
        return []
    return [Difference("ENUM_ARRAY_NARROWED" if new < old else "ENUM_ARRAY_CHANGED", ("enum",))]


def _constants(writer: Part, reader: Part) -> Found:
    old, new = (print_json(part.limits["const"], sort=True) for part in (writer, reader))
    return [] if old == new else [Difference("ENUM_ARRAY_CHANGED", ("const",))]


def _nots(writer: Part, reader: Part) -> Comparing:
    """What must not match may become less, so that the two are compared the other way round."""
    if (yield reader.inner["not"], writer.inner["not"]):
        return [Difference("NOT_TYPE_EXTENDED", ("not",))]
    return []


def _arrays(writer: Part, reader: Part) -> Comparing:
    found: Found = []
    old, new = writer.inner.get("items"), reader.inner.get("items")
    if new is not None:
        found += (
            [Difference("SCHEMA_ADDED", ("items",))]
            if old is None
            else (yield from _within("items", old, new))
        )
    found += yield from _positions(writer, reader)
    found += yield from _rest(writer, reader, "additionalItems", "ADDITIONAL_ITEMS")
    found += yield from _unevaluated(writer, reader, "unevaluatedItems", "UNEVALUATED_ITEMS")
    found += _limits(writer, reader, "maxItems", "minItems", "maxContains", "minContains")
    if reader.limits.get("uniqueItems") and not writer.limits.get("uniqueItems"):
        found.append(Difference("UNIQUE_ITEMS_ADDED", ("uniqueItems",)))
    return found


def _positions(writer: Part, reader: Part) -> Comparing:
    """Items that have a schema each. More of them may be known to one of the schemas, and then the
    content model of the other one says what it allowed at that position."""
    found: Found = []
    for index in range(max(len(writer.positions), len(reader.positions))):
        path = f"items/{index}"
        if index >= len(reader.positions):
            found += yield from _removed(path, writer.positions[index], reader)
        elif index >= len(writer.positions):
            new = reader.positions[index]
            others = _others(writer)
            if _is_open(writer):
                if new.kind not in _EMPTY:
                    found.append(Difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", (path,)))
            elif others is not None:
                found += yield from _covered(path, others, new, "ITEM_ADDED")
        else:
            found += yield from _within(path, writer.positions[index], reader.positions[index])
    return found


def _objects(writer: Part, reader: Part) -> Comparing:
    found = [
        Difference("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
        for name in writer.properties
        if name in reader.properties
        and name in reader.required
        and name not in writer.required
        and not reader.properties[name].has_default
    ]
    for name, old in writer.properties.items():
        new = reader.properties.get(name)
        path = ("properties", name)
        if new is not None:
            differences = yield from _within(name, old, new)
        else:
            differences = yield from _removed(name, old, reader)
        found += _at(path[0], differences)
    for name, new in reader.properties.items():
        if name not in writer.properties:
            found += _at("properties", (yield from _property_added(name, new, writer, reader)))
    found += _at("dependencies", (yield from _dependencies(writer, reader)))
    found += yield from _rest(writer, reader, "additionalProperties", "ADDITIONAL_PROPERTIES")
    found += yield from _unevaluated(
        writer, reader, "unevaluatedProperties", "UNEVALUATED_PROPERTIES"
    )
    return found + _limits(writer, reader, "maxProperties", "minProperties")


def _property_added(name: str, new: Part, writer: Part, reader: Part) -> Comparing:
    """A property that only the reader knows. Where the writer's model was open, its data may have
    any value under that name."""
    is_required = name in reader.required
    if _is_open(writer):
        if new.kind in _EMPTY:
            return []
        if not is_required:
            return [Difference("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", (name,))]
        word = "REQUIRED_PROPERTY_WITH_DEFAULT" if new.has_default else "REQUIRED_PROPERTY"
        return [Difference(f"{word}_ADDED_TO_OPEN_CONTENT_MODEL", (name,))]
    found: Found = []
    others = _others(writer, name)
    if others is not None:
        found += yield from _covered(name, others, new, "PROPERTY_ADDED")
    if is_required and not new.has_default:
        found.append(Difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", (name,)))
    return found


def _removed(path: str, old: Part, reader: Part) -> Comparing:
    """A property or item that only the writer knows."""
    if _is_open(reader):
        return []
    is_item = reader.kind == "array"
    word = "ITEM" if is_item else "PROPERTY"
    others = _others(reader, None if is_item else path)
    if others is not None:
        return (yield from _covered(path, old, others, f"{word}_REMOVED"))
    if old.kind == "false":
        return []
    return [Difference(f"{word}_REMOVED_FROM_CLOSED_CONTENT_MODEL", (path,))]


def _covered(path: str, writer: Part, reader: Part, word: str) -> Comparing:
    """Whether what one schema says of others is what the other schema says of this one."""
    found = yield from _within(path, writer, reader)
    if found:
        found.append(Difference(f"{word}_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", (path,)))
    return found


def _is_open(part: Part) -> bool:
    rest = "additionalItems" if part.kind == "array" else "additionalProperties"
    unevaluated = "unevaluatedItems" if part.kind == "array" else "unevaluatedProperties"
    if part.is_closed or part.patterns or rest in part.inner:
        return False
    return unevaluated not in part.inner or part.inner[unevaluated].kind in _EMPTY


def _others(part: Part, name: str | None = None) -> Part | None:
    """Returns what a partially open content model says of a property or of items that it does not
    name."""
    if name is not None:
        for pattern, inner in part.patterns.items():
            matcher = matcher_of(pattern)
            if matcher is not None and matcher.is_valid(name):
                return inner
    rest = "additionalItems" if part.kind == "array" else "additionalProperties"
    if rest in part.inner:
        return part.inner[rest]
    unevaluated = part.inner.get(
        "unevaluatedItems" if part.kind == "array" else "unevaluatedProperties"
    )
    if part.is_closed or unevaluated is None or unevaluated.kind in ("false", *_EMPTY):
        return None
    return unevaluated


def _rest(writer: Part, reader: Part, keyword: str, word: str) -> Comparing:
    old, new = writer.inner.get(keyword), reader.inner.get(keyword)
    if writer.is_closed != reader.is_closed:
        return [Difference(f"{word}_REMOVED", (keyword,))] if reader.is_closed else []
    if new is None:
        return []
    if old is None:
        return [Difference(f"{word}_NARROWED", (keyword,))]
    return (yield from _within(keyword, old, new))


def _unevaluated(writer: Part, reader: Part, keyword: str, word: str) -> Comparing:
    old, new = writer.inner.get(keyword), reader.inner.get(keyword)
    if new is None:
        return []
    was_open = old is None or old.kind in _EMPTY
    if new.kind == "false":
        is_same = old is not None and old.kind == "false"
        return [] if is_same else [Difference(f"{word}_REMOVED", (keyword,))]
    if old is None or (was_open and new.kind not in _EMPTY):
        return [Difference(f"{word}_NARROWED", (keyword,))]
    if old.kind == "false" or new.kind in _EMPTY:
        return []
    return (yield from _within(keyword, old, new))


def _dependencies(writer: Part, reader: Part) -> Comparing:
    found: Found = []
    for name, new in reader.dependent_names.items():
        old = writer.dependent_names.get(name)
        if old is None:
            found.append(Difference("DEPENDENCY_ARRAY_ADDED", (name,)))
        elif not new <= old:
            word = "DEPENDENCY_ARRAY_EXTENDED" if old < new else "DEPENDENCY_ARRAY_CHANGED"
            found.append(Difference(word, (name,)))
    for name, part in reader.dependent_parts.items():
        before = writer.dependent_parts.get(name)
        if before is None:
            found.append(Difference("DEPENDENCY_SCHEMA_ADDED", (name,)))
        else:
            found += yield from _within(name, before, part)
    return found


def _combinations(writer: Part, reader: Part) -> Comparing:
    """Members of both are paired so that each of the shorter list has a partner that it is
    compatible with. Alternatives may be added, and statements that hold together removed."""
    if not _criterion_may_change(writer, reader):
        return [Difference("COMBINED_TYPE_CHANGED", ())]
    old, new = _distinct(writer.members), _distinct(reader.members)
    found: Found = []
    if len(old) < len(new) and reader.criterion == "allOf":
        found.append(Difference("PRODUCT_TYPE_EXTENDED", ()))
    if len(old) > len(new) and writer.criterion != "allOf":
        found.append(Difference("SUM_TYPE_NARROWED", ()))
    partners: list[list[int]] = []
    for before in old:
        accepted = []
        for index, after in enumerate(new):
            if not (yield before, after):
                accepted.append(index)
        partners.append(accepted)
    if not has_matching(partners, min(len(old), len(new))):
        found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
    return found


def _criterion_may_change(writer: Part, reader: Part) -> bool:
    old_is_single, new_is_single = len(writer.members) == 1, len(reader.members) == 1
    return (
        reader.criterion in {writer.criterion, "anyOf"}
        or (old_is_single and (new_is_single or reader.criterion == "oneOf"))
        or (new_is_single and writer.criterion == "allOf")
    )


def _distinct(parts: list[Part]) -> list[Part]:
    return list({part.fingerprint: part for part in parts}.values())


_LEAVES: Final[dict[str, Callable[[Part, Part], Found]]] = {
    "string": _strings,
    "number": _numbers,
    "enum": _enums,
    "const": _constants,
}
_KINDS: Final[dict[str, Callable[[Part, Part], Comparing]]] = {
    "not": _nots,
    "array": _arrays,
    "object": _objects,
    "combined": _combinations,
}
