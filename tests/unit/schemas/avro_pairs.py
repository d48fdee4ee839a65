"""Avro schemas, changes of them and values of them, for the property test."""

from typing import Any

from hypothesis import strategies as st

_PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
_NAMES = ["a", "b", "c", "d"]
_SYMBOLS = ["A", "B", "C", "D"]
_DEFAULTS: dict[str, Any] = {
    "boolean": True,
    "int": 7,
    "long": 7,
    "float": 1.5,
    "double": 1.5,
    "bytes": "x",
    "string": "x",
}


def avro_schemas() -> st.SearchStrategy[Any]:
    return _records("R", depth=2)


@st.composite
def _records(draw: st.DrawFn, name: str, depth: int) -> Any:
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=3))
    return {
        "type": "record",
        "name": name,
        "fields": [draw(_fields(each, f"{name}_{each}", depth)) for each in names],
    }


@st.composite
def _fields(draw: st.DrawFn, name: str, path: str, depth: int) -> Any:
    kind = draw(_types(path, depth))
    field = {"name": name, "type": kind}
    default = _default(kind)
    if default is not _NONE and draw(st.booleans()):
        field["default"] = default
    return field


_NONE = object()


def _default(kind: Any) -> Any:
    """Returns a default of a type, for the types that have a simple one."""
    match kind:
        case str():
            return _DEFAULTS[kind]
        case ["null", *_]:
            return None
        case {"type": "array"}:
            return []
        case {"type": "map"}:
            return {}
        case {"type": "enum", "symbols": symbols}:
            return symbols[0]
        case _:
            return _NONE


def _types(path: str, depth: int) -> st.SearchStrategy[Any]:
    simple = st.sampled_from(_PRIMITIVES)
    if depth == 0:
        return simple
    enums = st.builds(
        lambda symbols, has_default: {
            "type": "enum",
            "name": f"E_{path}",
            "symbols": symbols,
            **({"default": symbols[0]} if has_default else {}),
        },
        st.lists(st.sampled_from(_SYMBOLS), min_size=1, unique=True),
        st.booleans(),
    )
    fixed = st.sampled_from([2, 4]).map(
        lambda size: {"type": "fixed", "name": f"F_{path}", "size": size}
    )
    inner = _types(path, depth - 1)
    arrays = inner.map(lambda items: {"type": "array", "items": items})
    maps = inner.map(lambda values: {"type": "map", "values": values})
    unions = st.lists(st.sampled_from(_PRIMITIVES), min_size=1, max_size=3, unique=True).map(
        lambda members: ["null", *members]
    )
    return st.one_of(
        simple, unions, unions, enums, fixed, arrays, maps, _records(f"N_{path}", depth - 1)
    )


@st.composite
def avro_changes(  # noqa: PLR0911 - one for each type
    draw: st.DrawFn, schema: Any, depth: int = 2
) -> Any:
    """A schema that differs a little: most changes can be compatible."""
    match schema:
        case {"type": "record"}:
            return draw(_changed_record(schema, depth))
        case str():
            wider = {"int": "long", "long": "double", "float": "double"}.get(schema, schema)
            return draw(st.sampled_from([schema, schema, wider, ["null", schema], "string"]))
        case list():
            more = draw(st.sampled_from([*_PRIMITIVES, "null"]))
            members = [member for member in schema if draw(st.integers(0, 7))]
            return members if more in members or not members else [*members, more]
        case {"type": "enum"}:
            symbols = draw(st.lists(st.sampled_from(_SYMBOLS), min_size=1, unique=True))
            changed = {"type": "enum", "name": schema["name"], "symbols": symbols}
            return changed | ({"default": symbols[0]} if draw(st.booleans()) else {})
        case {"type": "array", "items": items}:
            return {"type": "array", "items": draw(avro_changes(items, depth))}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": draw(avro_changes(values, depth))}
    return schema


@st.composite
def _changed_record(draw: st.DrawFn, schema: Any, depth: int) -> Any:
    fields = []
    for field in schema["fields"]:
        match draw(st.sampled_from(["keep", "keep", "change", "rename", "drop"])):
            case "keep":
                fields.append(field)
            case "change":
                kind = draw(avro_changes(field["type"], depth))
                fields.append({"name": field["name"], "type": kind})
            case "rename":
                fields.append({**field, "name": f"{field['name']}2", "aliases": [field["name"]]})
    names = {field["name"] for field in fields}
    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=2)):
        if name not in names:
            path = f"new_{schema['name']}_{name}"
            fields.append(draw(_fields(name, path, 1)))
    return {**schema, "fields": draw(st.permutations(fields))}


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    # Bytes that are no text cannot be read as a string.
    "bytes": st.text(max_size=5).map(str.encode),
    "string": st.text(max_size=5),
}


def avro_values(schema: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each type
    if isinstance(schema, str):
        return _VALUES[schema]
    if isinstance(schema, list):
        return st.one_of(*map(avro_values, schema))
    match schema:
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
        case {"type": "array", "items": items}:
            return st.lists(avro_values(items), max_size=3)
        case {"type": "map", "values": values}:
            return st.dictionaries(st.text(max_size=3), avro_values(values), max_size=3)
    return st.fixed_dictionaries(
        {field["name"]: avro_values(field["type"]) for field in schema["fields"]}
    )
