"""Classes of a JSON Schema: one for each object with properties, and for each list of texts.

Properties that are not required are optional. `allOf` is one class with the properties of all;
`oneOf`, `anyOf` and lists of types are unions. What has no type in Python (patterns, limits) is not
in the classes.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from odradek.schemas.classes.model import (
    ANY,
    NONE,
    Alias,
    Attribute,
    Default,
    EnumClass,
    Hint,
    Module,
    RecordClass,
    dated,
    dict_of,
    imported,
    list_of,
    union_of,
)
from odradek.schemas.classes.naming import ClassNames, attribute_names, capitals, member_names
from odradek.schemas.json_references import Documents, Place
from odradek.schemas.json_schema_document import JsonSchema

_SCALARS: Final = {
    "string": Hint("str"),
    "integer": Hint("int"),
    "number": Hint("float"),
    "boolean": Hint("bool"),
    "null": NONE,
}
_FORMATS: Final = {
    "date-time": dated("dt.datetime"),
    "date": dated("dt.date"),
    "time": dated("dt.time"),
    "uuid": imported("uuid", "UUID"),
}


def json_module(schema: JsonSchema, name: str) -> Module:
    """Returns the classes of a schema. `name` is for a schema without a title."""
    return _Builder(schema).build(name)


class _Builder:
    def __init__(self, schema: JsonSchema) -> None:
        keyword = "id" if "draft-04" in str(_get(schema.source, "$schema")) else "$id"
        self._documents = Documents(schema.source, schema.imports, keyword)
        self._names = ClassNames()
        self._module = Module()
        self._hints: dict[int, Hint] = {}
        self._open: set[int] = set()

    def build(self, name: str) -> Module:
        root = self._documents.root
        hint = self._hint(root, _get(root.schema, "title") or name)
        is_class = any(record.name == hint.text for record in self._module.records)
        if not is_class and not any(enum.name == hint.text for enum in self._module.enums):
            self._module.aliases.append(Alias(self._names.new(capitals(name)), hint))
        self._module.records.reverse()
        return self._module

    def _hint(self, place: Place, name: str) -> Hint:
        """Returns the hint of a schema. `name` is for the class that it may need."""
        schema = place.schema
        if not isinstance(schema, dict):
            return ANY
        key = id(schema)
        if key in self._hints:
            return self._hints[key]
        if key in self._open:
            # A schema that contains itself without a class in between.
            return ANY
        self._open.add(key)
        hint = self._new_hint(schema, place, name)
        self._open.discard(key)
        self._hints[key] = hint
        return hint

    def _new_hint(self, schema: dict[str, Any], place: Place, name: str) -> Hint:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            last = reference.rstrip("/").rpartition("/")[2].rpartition("#")[2]
            target = self._documents.find(reference, place)
            return self._hint(target, _get(target.schema, "title") or last or name)
        properties = self._properties(place, set())
        if "enum" in schema or "const" in schema:
            hint = self._enum(schema, name)
        elif properties:
            hint = self._record(schema, place, name, properties)
        else:
            hint = self._alternatives(schema, place, name)
        return hint

    def _alternatives(self, schema: dict[str, Any], place: Place, name: str) -> Hint:
        for criterion in ("oneOf", "anyOf"):
            members = schema.get(criterion)
            if isinstance(members, list):
                return union_of(
                    [
                        self._hint(place._replace(schema=each), f"{name} {index + 1}")
                        for index, each in enumerate(members)
                    ]
                )
        if isinstance(schema.get("allOf"), list) and schema["allOf"] and "type" not in schema:
            return self._hint(place._replace(schema=schema["allOf"][0]), name)
        kinds = schema.get("type")
        several = kinds if isinstance(kinds, list) else [kinds]
        return union_of([self._typed(str(kind), schema, place, name) for kind in several])

    def _typed(self, kind: str, schema: dict[str, Any], place: Place, name: str) -> Hint:
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, dict) or "prefixItems" in schema:
                return list_of(ANY)
            return list_of(self._hint(place._replace(schema=items), f"{name} item"))
        if kind == "object":
            others = schema.get("additionalProperties")
            if not isinstance(others, dict):
                return dict_of(ANY)
            return dict_of(self._hint(place._replace(schema=others), f"{name} value"))
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _SCALARS.get(kind, ANY)

    def _enum(self, schema: dict[str, Any], name: str) -> Hint:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if "const" in schema or not all(isinstance(value, str) for value in values) or not values:
            return _literals(values)
        made = self._names.new(capitals(str(schema.get("title") or name)))
        distinct = list(dict.fromkeys(values))
        members = tuple(zip(member_names(distinct), distinct, strict=True))
        self._module.enums.append(EnumClass(made, members, _doc(schema)))
        return Hint(made)

    def _record(
        self, schema: dict[str, Any], place: Place, name: str, properties: dict[str, Place]
    ) -> Hint:
        made = self._names.new(capitals(str(schema.get("title") or name)))
        hint = self._hints[id(schema)] = Hint(made)
        required = self._required(place, set())
        names = attribute_names(list(properties))
        attributes = tuple(
            self._attribute(attribute, source, inner, is_required=source in required, owner=made)
            for attribute, (source, inner) in zip(names, properties.items(), strict=True)
        )
        self._module.records.append(RecordClass(made, attributes, _doc(schema)))
        return hint

    def _attribute(
        self, name: str, source: str, place: Place, *, is_required: bool, owner: str
    ) -> Attribute:
        hint = self._hint(place, f"{owner} {source}")
        stated = _get(place.schema, "default")
        default = self._default(hint, stated)
        if default is None and not is_required:
            hint, default = union_of([hint, NONE]), Default(NONE)
        doc = _doc(place.schema) if isinstance(place.schema, dict) else ""
        if hint.text in {record.name for record in self._module.records}:
            doc = ""
        return Attribute(name, hint, default, doc, source if source != name else "")

    def _default(self, hint: Hint, value: Any) -> Default | None:
        kinds: dict[str, tuple[type, ...]] = {
            "str": (str,),
            "bool": (bool,),
            "int": (int,),
            "float": (int, Decimal),
        }
        bare = hint.text.removesuffix(" | None")
        if isinstance(value, str):
            for enum in self._module.enums:
                for member, text in enum.members:
                    if enum.name == bare and text == value:
                        return Default(Hint(f"{bare}.{member}"))
        expected = kinds.get(bare)
        if expected is None or not isinstance(value, expected):
            if value == [] and hint.text.startswith("list["):
                return Default(Hint("list"), is_made=True)
            if value == {} and hint.text.startswith("dict["):
                return Default(Hint("dict"), is_made=True)
            return None
        if isinstance(value, bool) != (bare == "bool"):
            return None
        return Default(Hint(f"{value!s}.0" if _is_whole_float(bare, value) else _literal(value)))

    def _properties(self, place: Place, seen: set[int]) -> dict[str, Place]:
        """Returns the properties of a schema, with those of `allOf` and of what those refer to."""
        schema = place.schema
        if not isinstance(schema, dict) or id(schema) in seen:
            return {}
        seen.add(id(schema))
        found: dict[str, Place] = {}
        for part in self._parts(place):
            found |= self._properties(part, seen)
        stated = schema.get("properties")
        if isinstance(stated, dict):
            found |= {name: place._replace(schema=inner) for name, inner in stated.items()}
        return found

    def _required(self, place: Place, seen: set[int]) -> set[str]:
        schema = place.schema
        if not isinstance(schema, dict) or id(schema) in seen:
            return set()
        seen.add(id(schema))
        names = schema.get("required")
        found = {str(name) for name in names} if isinstance(names, list) else set()
        for part in self._parts(place):
            found |= self._required(part, seen)
        return found

    def _parts(self, place: Place) -> list[Place]:
        schema = place.schema
        parts = schema.get("allOf")
        found = [place._replace(schema=part) for part in parts] if isinstance(parts, list) else []
        if isinstance(schema.get("$ref"), str):
            found.append(self._documents.find(schema["$ref"], place))
        return found


def _is_whole_float(hint: str, value: object) -> bool:
    return hint == "float" and isinstance(value, int)


def _get(schema: Any, key: str) -> Any:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _doc(schema: Mapping[str, Any]) -> str:
    text = schema.get("description")
    return text if isinstance(text, str) else ""


def _literals(values: list[Any]) -> Hint:
    """Returns the hint of values that are listed. Those that `Literal` does not take are Any."""
    if not values or not all(isinstance(value, str | int) or value is None for value in values):
        return ANY
    texts = dict.fromkeys(map(_literal, values))
    return Hint(f"Literal[{', '.join(texts)}]", frozenset({("typing", "Literal")}))


def _literal(value: Any) -> str:
    if isinstance(value, Decimal):
        return repr(float(value))
    if not isinstance(value, str):
        return repr(value)
    plain = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"' if value.isprintable() else repr(value)
