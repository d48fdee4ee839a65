"""Which fields of records nobody sees in the console.

A rule names topics and what is masked in their records:

    customers/value.email            the field email of the value
    payments-*/key                   the whole key
    */header.authorization           a header
    */value.**.password              a field at any depth; `*` stands for any one field

A rule for a field of an Avro record also holds where the field, or a record above it, is of a
union, for there Avro's JSON names the type: `{"customer": {"shop.Customer": {"email": ...}}}`. One
for a field of a Protobuf message may have the name that the schema gives it or that of JSON
(`home_address` is shown as `homeAddress`).

Everything that works on records gets them after masking: pages, text search, filters, downloads.
A value that cannot be taken apart, such as text that is not JSON, is masked as a whole where a rule
names one of its fields, because nobody knows where the field would be.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.console.records.globs import matches_glob

HIDDEN: Final = "••••••"
_PARTS: Final = ("key", "value", "header")
_ANY: Final = "*"
_ANY_DEPTH: Final = "**"
AVRO: Final = "Avro"
PROTOBUF: Final = "Protobuf"


class BadMask(ValueError):
    """A rule that cannot be read; the message says how one is written."""


@dataclass(frozen=True, slots=True)
class Mask:
    """One rule. `path` are the fields, or the name of a header."""

    topics: str
    part: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, rule: str) -> "Mask":
        topics, slash, rest = rule.strip().partition("/")
        part, *path = rest.split(".")
        if not slash or not topics or part not in _PARTS or "" in path:
            raise BadMask(
                f"{rule!r} is not TOPICS/PART.FIELD, such as customers/value.email or */key"
            )
        if part == "header":
            if not path:
                raise BadMask(f"{rule!r} names no header; write {topics}/header.NAME")
            path = [".".join(path)]
        return cls(topics, part, tuple(path))


class Masks:
    """The rules for the records of one topic."""

    def __init__(self, rules: Iterable[Mask], topic: str) -> None:
        self._rules = [rule for rule in rules if matches_glob(rule.topics, topic)]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def cover(self, other: "Masks") -> bool:
        """Returns whether everything that is masked by the rules of another topic is masked here
        too. Records of that topic may be copied to this one only then: else somebody could copy
        what they may not see to where it is shown."""
        own = {(rule.part, rule.path) for rule in self._rules}
        wholes = {part for part, path in own if not path}
        return all(rule.part in wholes or (rule.part, rule.path) in own for rule in other._rules)

    def concern(self, part: str) -> bool:
        """Returns whether a rule is about keys, or about values."""
        return any(rule.part == part for rule in self._rules)

    def apply(self, part: str, data: Any, schema: str = "") -> Any:
        """Returns the data of a key or value with what is masked replaced. `schema` is `Avro` or
        `Protobuf` for data with such a schema."""
        for rule in self._rules:
            if rule.part == part:
                data = _masked(data, rule.path, schema)
        return data

    def find_all(self, part: str, data: Any) -> bool:
        """Returns whether each rule about keys, or values, hides something of the data."""
        return all(
            _masked(data, rule.path, "") != data for rule in self._rules if rule.part == part
        )

    def hides_header(self, name: str) -> bool:
        return any(
            rule.part == "header" and matches_glob(rule.path[0].lower(), name.lower())
            for rule in self._rules
        )


def _masked(data: Any, path: Sequence[str], schema: str) -> Any:
    """Returns a copy of data in which the field at the path is masked."""
    if not path:
        return None if data is None else HIDDEN
    if isinstance(data, list):
        return [_masked(item, path, schema) for item in data]
    if not isinstance(data, dict):
        return data
    field, rest = path[0], path[1:]
    if field == _ANY_DEPTH:
        # The rest of the path may begin here, or in any field below.
        here = _masked(data, rest, schema) if rest else HIDDEN
        return _each_below(here, path, schema)
    found = {
        name: _masked(value, rest, schema) if _fits(field, name, schema) else value
        for name, value in data.items()
    }
    if schema == AVRO and len(found) == 1:
        # The name may be that of a type of a union.
        return _each_below(found, path, schema)
    return found


def _each_below(data: Any, path: Sequence[str], schema: str) -> Any:
    """Returns data with the path masked in each of its fields that has fields itself."""
    if not isinstance(data, dict):
        return data
    return {
        name: _masked(value, path, schema) if isinstance(value, dict | list) else value
        for name, value in data.items()
    }


def _fits(field: str, name: str, schema: str) -> bool:
    """Returns whether a part of a path means a field."""
    return field in (_ANY, name) or (schema == PROTOBUF and _json_name(field) == name)


def _json_name(field: str) -> str:
    """Returns the name that a field of Protobuf has in JSON: `homeAddress` for `home_address`."""
    first, *others = field.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)
