"""Classes whose objects are records: dataclasses, pydantic models, attrs classes.

`fields_of` says what fields such a class has, `to_plain` turns objects into dicts for a codec, and
`maker_of` turns decoded dicts into objects. A field of type int, float, str, bytes, bool, Decimal,
date, time, datetime, UUID, an Enum, another record class, and lists, dicts, Optional and unions of
these are known.
"""

import dataclasses
import sys
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from odradek.schemas.errors import BadPayload, BadSchema

MISSING: Final = dataclasses.MISSING
Plain = Callable[[Any], Any]


class RecordField(NamedTuple):
    """`name` is the name in the schema, `attribute` that in the class: they differ if the metadata
    of a field, or the alias of a pydantic model, has another `name`. `default` is MISSING if
    there is none, and a function if each object gets a new one."""

    name: str
    attribute: str
    hint: Any
    default: Any
    makes_default: bool = False


def is_record_class(kind: object) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or hasattr(kind, "__attrs_attrs__")
        or hasattr(kind, "model_fields")
    )


def full_name(kind: type) -> str:
    """Returns the name of a record: that of its class, in the namespace that the class may give as
    `__avro_namespace__`."""
    namespace = getattr(kind, "__avro_namespace__", "")
    return f"{namespace}.{kind.__name__}" if namespace else kind.__name__


@cache
def fields_of(kind: type) -> tuple[RecordField, ...]:
    try:
        hints = hints_of(kind, include_extras=True)
    except NameError as error:
        raise BadSchema(f"{kind.__name__}: a type is not known: {error}") from None
    if hasattr(kind, "model_fields"):
        return tuple(_of_pydantic(kind, hints))
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(_of_attrs(kind, hints))
    return tuple(
        RecordField(
            field.metadata.get("name", field.name),
            field.name,
            hints[field.name],
            field.default if field.default_factory is MISSING else field.default_factory,
            field.default_factory is not MISSING,
        )
        for field in dataclasses.fields(kind)
        if field.init
    )


def _of_pydantic(kind: Any, hints: dict[str, Any]) -> list[RecordField]:
    found = []
    for name, field in kind.model_fields.items():
        default, makes = field.default, field.default_factory is not None
        if makes:
            default = field.default_factory
        elif field.is_required():
            default = MISSING
        found.append(RecordField(field.alias or name, name, hints[name], default, makes))
    return found


def _of_attrs(kind: Any, hints: dict[str, Any]) -> list[RecordField]:
    attrs = sys.modules["attr"]  # its class was made by it
    found = []
    for field in kind.__attrs_attrs__:
        if not field.init:
            continue
        default, makes = field.default, False
        if default is attrs.NOTHING:
            default = MISSING
        elif isinstance(default, attrs.Factory):
            default, makes = default.factory, True
        name = field.metadata.get("name", field.name)
        found.append(RecordField(name, field.name, hints[field.name], default, makes))
    return found


# Hints


def bare(hint: Any) -> Any:
    """Returns a hint without `Annotated`."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


def members_of(hint: Any) -> tuple[Any, ...]:
    """Returns the members of a union; None for other hints is a tuple of itself."""
    hint = bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return get_args(hint)
    return (hint,)


def item_of(hint: Any) -> Any:
    """Returns the hint of the elements of a list, tuple or set, or None for other hints."""
    hint = bare(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _SEQUENCES and arguments:
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            return None
        return arguments[0]
    return None


def value_of(hint: Any) -> Any:
    """Returns the hint of the values of a dict with text as keys, or None for other hints."""
    hint = bare(hint)
    arguments = get_args(hint)
    is_dict = get_origin(hint) in _MAPPINGS and len(arguments) == 2 and arguments[0] is str
    return arguments[1] if is_dict else None


def _abstract(name: str) -> Any:
    import collections.abc as abstract  # noqa: PLC0415 - beside the classes of the same names

    return getattr(abstract, name)


_SEQUENCES: Final = (
    list,
    tuple,
    set,
    frozenset,
    *map(_abstract, ("Sequence", "MutableSequence", "Iterable", "Collection", "Set")),
)
_SCALARS: Final = (str, int, float, bool, bytes, type(None))
_MAPPINGS: Final = (dict, *map(_abstract, ("Mapping", "MutableMapping")))


def symbols_of(kind: type[Enum]) -> dict[Enum, str]:
    """Returns how the members of an Enum are written: their values if all are text that a symbol
    may be, or else their names."""
    members = list(kind)
    values = [member.value for member in members]
    if all(isinstance(value, str) and value.isidentifier() for value in values):
        return {member: member.value for member in members}
    return {member: member.name for member in members}


# Objects to dicts


class Plainer:
    """Turns objects into what a codec takes. `leaves` converts the types that the format does not
    have; with `names_records`, a record in a union of several is `(full name, dict)`, as fastavro
    wants it to tell them apart."""

    def __init__(self, leaves: dict[type, Plain], *, names_records: bool) -> None:
        self._known: dict[type, Plain | None] = dict.fromkeys(_SCALARS)
        self._known.update(leaves)
        self._names_records = names_records

    def plain(self, value: Any) -> Any:
        kind = value.__class__
        try:
            convert = self._known[kind]
        except KeyError:
            convert = self._known[kind] = self._of_class(kind)
        return value if convert is None else convert(value)

    def _of_class(self, kind: type) -> Plain | None:
        if is_record_class(kind):
            return self._of_record(kind)
        if issubclass(kind, Enum):
            symbols = symbols_of(kind)
            return lambda member: symbols[member]
        if issubclass(kind, dict):
            return lambda pairs: {key: self.plain(value) for key, value in pairs.items()}
        if issubclass(kind, list | tuple | set | frozenset):
            return lambda items: [self.plain(item) for item in items]
        for known, convert in list(self._known.items()):
            if known is not type(None) and issubclass(kind, known):
                return convert
        return None

    def _of_record(self, kind: type) -> Plain:
        if not self._names_records and hasattr(kind, "model_dump"):
            # pydantic knows how its JSON Schema has it.
            return lambda model: model.model_dump(mode="json", by_alias=True)
        plain = self.plain
        fields = [
            (field.name, field.attribute, self._naming(field.hint) or plain)
            for field in fields_of(kind)
        ]
        return lambda value: {
            name: convert(getattr(value, attribute)) for name, attribute, convert in fields
        }

    def _naming(self, hint: Any) -> Plain | None:
        """Returns a conversion for a hint with a union of several records in it, or None."""
        if not self._names_records:
            return None
        records = [member for member in members_of(hint) if is_record_class(member)]
        if len(records) > 1:
            plain, names = self.plain, {kind: full_name(kind) for kind in records}
            return lambda value: (
                (names[type(value)], plain(value)) if type(value) in names else plain(value)
            )
        for member in members_of(hint):
            if (item := item_of(member)) is not None and (each := self._naming(item)) is not None:
                convert = each
                return lambda items: None if items is None else [convert(item) for item in items]
            if (value := value_of(member)) is not None and (
                each := self._naming(value)
            ) is not None:
                of_value = each
                return lambda pairs: (
                    None if pairs is None else {key: of_value(one) for key, one in pairs.items()}
                )
        return None


# Dicts to objects


class Maker:
    """Makes objects of record classes from decoded values. `leaves` converts what the format has in
    place of a type; it may get a value that is of that type already."""

    def __init__(self, leaves: dict[type, Plain]) -> None:
        self._leaves = leaves
        self._known: dict[type, Plain] = {}

    def of(self, hint: Any) -> Plain | None:
        """Returns a function that makes a value of a hint, or None if values need no change."""
        hint = bare(hint)
        members = [member for member in members_of(hint) if member is not type(None)]
        if len(members) > 1:
            return self._of_union(members)
        optional = len(members_of(hint)) > 1
        hint = bare(members[0]) if members else hint
        make = self._of_one(hint)
        if make is None or not optional:
            return make
        return lambda value: None if value is None else make(value)

    def _of_one(self, hint: Any) -> Plain | None:
        if is_record_class(hint):
            return lambda value: self.record(hint, value)
        if (item := item_of(hint)) is not None:
            return self._of_items(get_origin(hint), self.of(item))
        if (value := value_of(hint)) is not None:
            each = self.of(value)
            if each is None:
                return None
            return lambda pairs: {key: each(one) for key, one in pairs.items()}
        if isinstance(hint, type) and issubclass(hint, Enum):
            by_symbol = {symbol: member for member, symbol in symbols_of(hint).items()}
            return lambda symbol: _member(hint, by_symbol, symbol)
        return self._leaves.get(hint) if isinstance(hint, type) else None

    @staticmethod
    def _of_items(origin: Any, each: Plain | None) -> Plain | None:
        collect = origin if origin in (tuple, set, frozenset) else list
        if each is None:
            return None if collect is list else collect
        return lambda items: collect(each(item) for item in items)

    def _of_union(self, members: list[Any]) -> Plain | None:
        records = {full_name(member): member for member in members if is_record_class(member)}
        if not records and all(self._of_one(bare(member)) is None for member in members):
            return None

        def make(value: Any) -> Any:
            if isinstance(value, tuple):
                name, value = value
                if name in records:
                    return self.record(records[name], value)
                raise BadPayload(f"{name} is none of {', '.join(records)}")
            if isinstance(value, dict) and len(records) == 1:
                return self.record(next(iter(records.values())), value)
            return value

        return make

    def record(self, kind: type, value: Any) -> Any:
        make = self._known.get(kind)
        if make is None:
            make = self._known[kind] = self._of_record(kind)
        return make(value)

    def _of_record(self, kind: Any) -> Plain:
        if hasattr(kind, "model_validate"):
            return lambda value: _validated(kind, _without_names(value))
        fields = fields_of(kind)
        # attrs gives private attributes to its __init__ without their underscore.
        arguments = {
            field.name: field.attribute.lstrip("_")
            if hasattr(kind, "__attrs_attrs__")
            else field.attribute
            for field in fields
        }
        # A class that contains itself: its own conversion is looked up when it is called.
        converts = {field.name: self.of(field.hint) for field in fields}

        def make(value: Any) -> Any:
            if isinstance(value, tuple):
                value = value[1]
            if not isinstance(value, dict):
                raise BadPayload(f"{value!r:.80} is no {kind.__name__}")
            given = {}
            for name, argument in arguments.items():
                if name in value:
                    found = value[name]
                    convert = converts[name]
                    given[argument] = found if convert is None else convert(found)
            try:
                return kind(**given)
            except (TypeError, ValueError) as error:
                raise BadPayload(f"{kind.__name__} cannot be made: {error}") from error

        return make


def _member(kind: type[Enum], by_symbol: dict[str, Enum], symbol: Any) -> Any:
    if isinstance(symbol, kind):
        return symbol
    try:
        return by_symbol[symbol]
    except (KeyError, TypeError):
        raise BadPayload(f"{kind.__name__} has no {symbol!r:.80}") from None


def _validated(kind: Any, value: Any) -> Any:
    try:
        return kind.model_validate(value)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise BadPayload(f"{kind.__name__} cannot be made: {reason:.300}") from error


def _without_names(value: Any) -> Any:
    """Returns a value without the names of records in unions."""
    if isinstance(value, tuple):
        return _without_names(value[1])
    if isinstance(value, dict):
        return {key: _without_names(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_names(one) for one in value]
    return value


def literal_values(hint: Any) -> tuple[Any, ...]:
    """Returns the values of a Literal; none for other hints."""
    hint = bare(hint)
    return get_args(hint) if get_origin(hint) is Literal else ()


def has_union_of_records(kind: type) -> bool:
    """Returns whether decoded records of a class must say which record of a union they are."""
    return _has_union(kind, set())


def _has_union(hint: Any, seen: set[Any]) -> bool:
    members = members_of(hint)
    if sum(is_record_class(member) for member in members) > 1:
        return True
    for member in members:
        inner = item_of(member) or value_of(member)
        if inner is not None and _has_union(inner, seen):
            return True
        if is_record_class(member) and member not in seen:
            seen.add(member)
            if any(_has_union(field.hint, seen) for field in fields_of(member)):
                return True
    return False
