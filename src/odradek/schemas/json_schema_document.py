"""JSON Schemas as a schema registry sees them: drafts 4, 6, 7, 2019-09 and 2020-12.

Without `$schema`, a schema is of draft 7, as in Confluent's registry. Only what the comparison
needs is checked: that keywords have values of their type, that types exist, that patterns are
regular expressions and that references lead somewhere. A schema is not validated against the
schema of its draft, because registries accept schemas with slips in keywords that nobody reads.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.json_references import Documents, Place
from odradek.schemas.json_schema_parts import NO_VALUE, Part
from odradek.schemas.json_text import print_json, read_json
from odradek.schemas.parsed import Incompatibility, ParsedSchema, Reference

_DRAFTS: Final = {
    "json-schema.org/draft-04/": 4,
    "json-schema.org/draft-06/": 6,
    "json-schema.org/draft-07/": 7,
    "json-schema.org/draft/2019-09/": 2019,
    "json-schema.org/draft/2020-12/": 2020,
}
_DEFAULT_DRAFT: Final = 7
_MODERN: Final = 2019
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_STRING: Final = ("minLength", "maxLength", "pattern", "format")
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY: Final = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
_MODERN_ARRAY: Final = (*_ARRAY, "prefixItems", "unevaluatedItems", "minContains", "maxContains")
_OBJECT: Final = (
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
)
_MODERN_OBJECT: Final = (
    *_OBJECT,
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
)
_COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


class JsonSchema(ParsedSchema):
    schema_type = "JSON"

    def __init__(
        self,
        source: Any,
        imports: Mapping[str, Any],
        references: tuple[Reference, ...],
        *,
        is_new: bool,
    ) -> None:
        self.source = source
        self.references = references
        self.text = print_json(source)
        self.imports = imports
        self._is_new = is_new
        if is_new:
            _ = self.root

    @cached_property
    def root(self) -> Part:
        try:
            return _Loader(self.source, self.imports, is_new=self._is_new).load()
        except InvalidSchema:
            raise
        except ValueError as error:
            # Of identifiers and references that are no URIs.
            raise InvalidSchema(f"an identifier or a $ref is not a URI: {error}") from None

    def normalized(self) -> "JsonSchema":
        source = read_json(print_json(self.source, sort=True), exact=True)
        references = tuple(sorted(set(self.references)))
        return JsonSchema(source, self.imports, references, is_new=False)

    @property
    def identity(self) -> str:
        return self.text

    @property
    def field_names(self) -> frozenset[str]:
        properties = self.source.get("properties") if isinstance(self.source, dict) else None
        return frozenset(properties if isinstance(properties, dict) else ())

    def incompatibilities_with(self, writer: ParsedSchema) -> list[Incompatibility]:
        from odradek.schemas.json_schema_compatibility import compare  # noqa: PLC0415 - circular

        assert isinstance(writer, JsonSchema)
        return compare(writer.root, self.root)


def parse(
    text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool
) -> JsonSchema:
    imports = {}
    for name, imported in resolved.items():
        try:
            imports[name] = read_json(imported, exact=True)
        except InvalidSchema as error:
            raise InvalidSchema(f"in the reference {name}: {error}") from None
    return JsonSchema(read_json(text, exact=True), imports, references, is_new=is_new)


class _Loader:
    """Builds the parts of a schema. What a `$ref` leads to is loaded after the part that has it,
    so that chains of references need no recursion."""

    def __init__(self, source: Any, imports: Mapping[str, Any], *, is_new: bool) -> None:
        if not isinstance(source, dict | bool):
            raise InvalidSchema(
                f"the schema is {print_json(source)[:60]}: a JSON schema is an object, true or"
                " false"
            )
        stated = source.get("$schema") if isinstance(source, dict) else None
        self._draft = next(
            (draft for part, draft in _DRAFTS.items() if part in str(stated)), _DEFAULT_DRAFT
        )
        self._id_keyword = "id" if self._draft == 4 else "$id"
        self._documents = Documents(source, imports, self._id_keyword)
        self._is_new = is_new
        self._parts: dict[int, Part] = {}
        self._waiting: list[tuple[Part, str, Place]] = []

    @property
    def _is_modern(self) -> bool:
        return self._draft >= _MODERN

    def load(self) -> Part:
        root = self._part(self._documents.root)
        while self._waiting:
            part, reference, place = self._waiting.pop()
            part.target = self._part(self._documents.find(reference, place))
        return root

    def _part(self, place: Place) -> Part:
        schema = place.schema
        if isinstance(schema, bool):
            return Part("true" if schema else "false")
        if not isinstance(schema, dict):
            raise InvalidSchema(
                f"{print_json(schema)[:60]} stands where a schema must be: an object, true or false"
            )
        known = self._parts.get(id(schema))
        if known is None:
            known = self._parts[id(schema)] = self._statements(schema, place)
        return known

    def _child(self, schema: Any, place: Place) -> Part:
        base = place.base
        if isinstance(schema, dict) and isinstance(schema.get(self._id_keyword), str):
            found = self._documents.find(schema[self._id_keyword], place)
            base = found.base
        return self._part(Place(schema, base, place.document))

    def _statements(self, schema: dict[str, Any], place: Place) -> Part:
        """Returns one part for an object: that of its only statement, or all of them."""
        said = self._reference(schema, place)
        if not said or self._is_modern:
            said += self._values(schema, place)
            said += self._typed(schema, place)
        if not said:
            part = Part("empty")
        elif len(said) == 1:
            part = said[0]
        else:
            part = Part("combined", criterion="allOf", members=said)
        part.default = schema.get("default", NO_VALUE)
        part.connect_type = schema.get("connect.type")
        if self._is_modern:
            for definition in _object_of(schema, "$defs").values():
                if isinstance(definition, dict | bool):
                    self._child(definition, place)
        return part

    def _reference(self, schema: dict[str, Any], place: Place) -> list[Part]:
        keywords = ("$ref", "$dynamicRef", "$recursiveRef") if self._is_modern else ("$ref",)
        parts = []
        for keyword in keywords:
            if keyword in schema:
                reference = schema[keyword]
                if not isinstance(reference, str):
                    raise InvalidSchema(f"{keyword} is {print_json(reference)[:60]}, not a string")
                part = Part("ref", reference=reference)
                self._waiting.append((part, reference, place))
                parts.append(part)
        return parts

    def _values(self, schema: dict[str, Any], place: Place) -> list[Part]:
        """The statements that are about values of any type."""
        parts = []
        if "enum" in schema:
            values = _list_of(schema, "enum")
            parts.append(Part("enum", limits={"enum": values}))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in schema:
                members = [self._child(member, place) for member in _list_of(schema, criterion)]
                parts.append(Part("combined", criterion=criterion, members=members))
        if "not" in schema:
            parts.append(Part("not", inner={"not": self._child(schema["not"], place)}))
        if "const" in schema and self._draft > 4:
            parts.append(Part("const", limits={"const": schema["const"]}))
        if self._draft >= 7:
            inner: dict[str, Part] = {
                keyword: self._child(schema[keyword], place)
                for keyword in ("if", "then", "else")
                if keyword in schema
            }
            if inner:
                parts.append(Part("condition", inner=inner))
        return parts

    def _typed(self, schema: dict[str, Any], place: Place) -> list[Part]:
        """The statements that are about values of one type. Without `type`, keywords such as
        `minLength` say which."""
        kinds = schema.get("type", [])
        parts = []
        if isinstance(kinds, str):
            parts.append(self._of_type(kinds, schema, place))
            named = {kinds}
        elif isinstance(kinds, list):
            if kinds:
                members = [self._of_type(kind, schema, place) for kind in kinds]
                parts.append(Part("combined", criterion="anyOf", members=members))
            named = set(kinds)
        else:
            raise InvalidSchema(f"type is {print_json(kinds)[:60]}, not a string or a list")
        sniffed = {
            "array": _MODERN_ARRAY if self._is_modern else _ARRAY,
            "object": _MODERN_OBJECT if self._is_modern else _OBJECT,
            "number": _NUMBER,
            "string": _STRING[:-1] if self._is_modern else _STRING,
        }
        for kind, keywords in sniffed.items():
            is_named = kind in named or (kind == "number" and "integer" in named)
            if not is_named and any(keyword in schema for keyword in keywords):
                parts.append(self._of_type(kind, schema, place))
        return parts

    def _of_type(self, kind: Any, schema: dict[str, Any], place: Place) -> Part:
        if kind not in _TYPES:
            raise InvalidSchema(
                f"type has {print_json(kind)[:60]}: use one of {', '.join(sorted(_TYPES))}"
            )
        part = Part("number" if kind == "integer" else kind)
        for keyword in _COUNTS.get(kind, ()):
            if keyword in schema:
                part.limits[keyword] = _count_of(schema, keyword)
        match kind:
            case "integer" | "number":
                self._number(part, schema, is_integer=kind == "integer")
            case "string":
                if "pattern" in schema:
                    part.limits["pattern"] = self._pattern(schema["pattern"])
            case "array":
                self._array(part, schema, place)
            case "object":
                self._object(part, schema, place)
        return part

    def _number(self, part: Part, schema: dict[str, Any], *, is_integer: bool) -> None:
        if is_integer:
            part.limits["integer"] = True
        for keyword in _NUMBER:
            value = schema.get(keyword)
            if value is None or (self._draft == 4 and isinstance(value, bool)):
                continue
            if not isinstance(value, int | Decimal) or isinstance(value, bool):
                raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not a number")
            if keyword == "multipleOf" and value <= 0:
                raise InvalidSchema(f"multipleOf is {value}: it must be greater than 0")
            part.limits[keyword] = value

    def _array(self, part: Part, schema: dict[str, Any], place: Place) -> None:
        if "uniqueItems" in schema:
            part.limits["uniqueItems"] = _boolean_of(schema, "uniqueItems")
        items = schema.get("items")
        positions = schema.get("prefixItems") if self._is_modern else None
        if isinstance(items, list):
            positions, items = items, schema.get("additionalItems")
        if positions is not None and not isinstance(positions, list):
            raise InvalidSchema(f"prefixItems is {print_json(positions)[:60]}, not a list")
        part.positions = [self._child(position, place) for position in positions or ()]
        if isinstance(schema.get("items"), list) or not self._is_modern:
            self._rest(part, schema.get("additionalItems"), "additionalItems", place)
            if not part.positions and items is not None and not isinstance(schema["items"], list):
                part.inner["items"] = self._child(items, place)
        elif part.positions or isinstance(items, bool):
            self._rest(part, items, "additionalItems", place)
        elif items is not None:
            part.inner["items"] = self._child(items, place)
        if self._is_modern:
            self._modern_array(part, schema, place)

    def _modern_array(self, part: Part, schema: dict[str, Any], place: Place) -> None:
        if "contains" in schema:
            self._child(schema["contains"], place)
            part.limits["minContains"] = 1
            for keyword in ("minContains", "maxContains"):
                if keyword in schema:
                    part.limits[keyword] = _count_of(schema, keyword)
        if "unevaluatedItems" in schema:
            part.inner["unevaluatedItems"] = self._child(schema["unevaluatedItems"], place)

    def _rest(self, part: Part, schema: Any, keyword: str, place: Place) -> None:
        """What is said of items or properties that are not named."""
        if schema is False:
            part.is_closed = True
        elif schema is not None and schema is not True:
            part.inner[keyword] = self._child(schema, place)

    def _object(self, part: Part, schema: dict[str, Any], place: Place) -> None:
        for name, value in _object_of(schema, "properties").items():
            if name != self._id_keyword or isinstance(value, dict):
                part.properties[name] = self._child(value, place)
        for pattern, value in _object_of(schema, "patternProperties").items():
            part.patterns[self._pattern(pattern)] = self._child(value, place)
        if "required" in schema:
            part.required = _names_of(schema["required"], "required")
        self._rest(part, schema.get("additionalProperties"), "additionalProperties", place)
        if self._is_modern:
            for name, names in _object_of(schema, "dependentRequired").items():
                part.dependent_names[name] = _names_of(names, "dependentRequired")
            for name, value in _object_of(schema, "dependentSchemas").items():
                part.dependent_parts[name] = self._child(value, place)
            if "unevaluatedProperties" in schema:
                part.inner["unevaluatedProperties"] = self._child(
                    schema["unevaluatedProperties"], place
                )
            return
        for name, value in _object_of(schema, "dependencies").items():
            if isinstance(value, list):
                part.dependent_names[name] = _names_of(value, "dependencies")
            else:
                part.dependent_parts[name] = self._child(value, place)

    def _pattern(self, pattern: Any) -> str:
        if not isinstance(pattern, str):
            raise InvalidSchema(f"pattern is {print_json(pattern)[:60]}, not a string")
        if self._is_new:
            check_pattern(pattern)
        return pattern


def check_pattern(pattern: str) -> None:
    """Refuses what is not a regular expression. Dialects differ, so that one is accepted if Python
    knows it or the library that checks values does."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        if matcher_of(pattern) is None:
            raise InvalidSchema(
                f"the pattern {pattern[:200]!r} is not a regular expression: {error}"
            ) from None


def matcher_of(pattern: str) -> Any:
    """Returns a validator for strings in which a pattern occurs, or None if it is not supported.

    jsonschema-rs matches in linear time, and where that is impossible (look-around) it gives up
    after a number of steps. Python's `re` would take years for `(a+)+$`.
    """
    import jsonschema_rs  # noqa: PLC0415 - few schemas have patterns, and it is large

    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern})
    except (ValueError, jsonschema_rs.ValidationError):
        return None


# Values of keywords


def _object_of(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword, {})
    if not isinstance(value, dict):
        raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not an object")
    return value


def _list_of(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema[keyword]
    if not isinstance(value, list):
        raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not a list")
    return value


def _names_of(value: Any, keyword: str) -> frozenset[str]:
    names: Iterable[Any] = value if isinstance(value, list) else [value]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in names):
        raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not a list of strings")
    return frozenset(value)


def _count_of(schema: Mapping[str, Any], keyword: str) -> int:
    value = schema[keyword]
    is_whole = isinstance(value, int) or (isinstance(value, Decimal) and value == int(value))
    if not is_whole or isinstance(value, bool) or value < 0:
        raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not a number from 0")
    return int(value)


def _boolean_of(schema: Mapping[str, Any], keyword: str) -> bool:
    value = schema[keyword]
    if not isinstance(value, bool):
        raise InvalidSchema(f"{keyword} is {print_json(value)[:60]}, not true or false")
    return value
