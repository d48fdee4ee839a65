"""JSON Schemas, changes of them and values of them, for the property test.

Every schema states its type, and every required property has a schema: without them, the rules of
Confluent's registry do not protect readers.
"""

from typing import Any

from hypothesis import strategies as st

_NAMES = ["a", "b", "c", "d"]
_TEXTS = ["", "x", "xy", "xyz", "hello"]


def json_schemas(depth: int = 2) -> st.SearchStrategy[Any]:
    strings = st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 2), "maxLength": st.integers(2, 5)},
    )
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-9, 0),
            "maximum": st.integers(0, 9),
            "exclusiveMaximum": st.integers(5, 20),
        },
    )
    enums = st.lists(st.sampled_from(_TEXTS), min_size=1, unique=True).map(
        lambda values: {"enum": values}
    )
    simple = st.one_of(
        strings, numbers, enums, st.sampled_from([{"type": "boolean"}, {"type": "null"}])
    )
    if depth == 0:
        return simple
    inner = json_schemas(depth - 1)
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"minItems": st.integers(0, 1), "maxItems": st.integers(1, 3)},
    )
    unions = st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members})
    return st.one_of(simple, arrays, unions, _objects(depth), _objects(depth))


@st.composite
def _objects(draw: st.DrawFn, depth: int) -> Any:
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=3))
    properties = {name: draw(json_schemas(depth - 1)) for name in names}
    return draw(_closed(properties, depth))


@st.composite
def _closed(draw: st.DrawFn, properties: Any, depth: int) -> Any:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if draw(st.booleans())],
    }
    match draw(st.sampled_from(["open", "closed", "closed", "partial"])):
        case "closed":
            schema["additionalProperties"] = False
        case "partial":
            schema["additionalProperties"] = draw(json_schemas(depth - 1))
    return schema


@st.composite
def json_changes(  # noqa: PLR0911 - one for each type
    draw: st.DrawFn, schema: Any, depth: int = 2
) -> Any:
    match schema:
        case {"type": "object"}:
            return draw(_changed_object(schema, depth))
        case {"type": "array", "items": items}:
            return {**schema, "items": draw(json_changes(items, depth))} | draw(
                st.sampled_from([{}, {"maxItems": 4}, {"minItems": 1}])
            )
        case {"anyOf": members}:
            changed = [draw(json_changes(member, depth)) for member in members]
            return {
                "anyOf": draw(
                    st.permutations(changed + draw(st.lists(json_schemas(0), max_size=1)))
                )
            }
        case {"enum": values}:
            return {
                "enum": draw(st.lists(st.sampled_from(_TEXTS), min_size=1, unique=True)) + values
            }
        case {"type": "string"}:
            change = draw(
                st.sampled_from([{}, {"maxLength": 9}, {"minLength": 0}, {"minLength": 2}])
            )
            return {**schema, **change}
        case {"type": "integer"}:
            return {**schema, "type": draw(st.sampled_from(["integer", "number"]))}
        case {"type": "number"}:
            return {**schema, **draw(st.sampled_from([{}, {"maximum": 30}, {"minimum": -30}]))}
    alternatives: list[Any] = [schema, {"anyOf": [schema, {"type": "string"}]}, {}]
    return draw(st.sampled_from(alternatives))


@st.composite
def _changed_object(draw: st.DrawFn, schema: Any, depth: int) -> Any:
    properties = {}
    for name, inner in schema["properties"].items():
        match draw(st.sampled_from(["keep", "keep", "change", "drop"])):
            case "keep":
                properties[name] = inner
            case "change":
                properties[name] = draw(json_changes(inner, depth))
    for name in draw(st.lists(st.sampled_from(_NAMES), max_size=1)):
        properties.setdefault(name, draw(st.one_of(st.just({}), json_schemas(0))))
    changed = {
        **schema,
        "properties": properties,
        "required": [
            name for name in schema["required"] if name in properties and draw(st.booleans())
        ],
    }
    if "additionalProperties" in schema and not draw(st.integers(0, 3)):
        del changed["additionalProperties"]
    return changed


def json_values(schema: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each type
    if not schema:
        return st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(_TEXTS))
    match schema:
        case {"enum": values}:
            return st.sampled_from(values)
        case {"anyOf": members}:
            return st.one_of(*map(json_values, members))
        case {"type": "string"}:
            return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 5))
        case {"type": "integer" | "number" as kind}:
            low = schema.get("minimum", -100)
            high = min(schema.get("maximum", 100), schema.get("exclusiveMaximum", 101) - 1)
            return st.integers(low, high) if kind == "integer" else st.floats(low, high)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "null"}:
            return st.none()
        case {"type": "array"}:
            return st.lists(
                json_values(schema["items"]),
                min_size=schema.get("minItems", 0),
                max_size=schema.get("maxItems", 3),
            )
    return _object_values(schema)


@st.composite
def _object_values(draw: st.DrawFn, schema: Any) -> Any:
    value = {}
    for name, inner in schema["properties"].items():
        if name in schema["required"] or draw(st.booleans()):
            value[name] = draw(json_values(inner))
    others = schema.get("additionalProperties", {})
    if others is not False:
        for name in draw(st.lists(st.sampled_from(_NAMES), max_size=2)):
            if name not in schema["properties"]:
                value[name] = draw(json_values(others))
    return value
