"""Protobuf messages, changes of them and values of them, for the property test."""

from typing import Any, NamedTuple

from google.protobuf import descriptor_pool, message_factory
from hypothesis import strategies as st

from odradek.schemas.parsed import parse
from odradek.schemas.proto_compiling import compile_schema
from odradek.schemas.proto_file import ProtobufSchema

_SCALARS = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "sint32": st.integers(-(2**31), 2**31 - 1),
    "sint64": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=5),
    "sfixed32": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
}
_INNER = "N"
_TAGS = list(range(1, 7))


class Field(NamedTuple):
    tag: int
    type: str
    label: str = ""
    oneof: str = ""

    @property
    def name(self) -> str:
        return f"f{self.tag}"


Fields = tuple[Field, ...]


def messages() -> st.SearchStrategy[Fields]:
    return st.lists(_fields(), min_size=1, max_size=5, unique_by=lambda field: field.tag).map(tuple)


def _fields() -> st.SearchStrategy[Field]:
    types = st.sampled_from([*_SCALARS, *_SCALARS, _INNER])
    tags, no = st.sampled_from(_TAGS), st.just("")
    plain = st.builds(Field, tags, types, st.sampled_from(["", "repeated"]), no)
    inside = st.builds(Field, tags, types, no, st.sampled_from(["o", "p"]))
    return st.one_of(plain, plain, inside)


@st.composite
def changes(draw: st.DrawFn, fields: Fields) -> Fields:
    changed = []
    for field in fields:
        match draw(st.sampled_from(["keep", "keep", "type", "oneof", "drop"])):
            case "keep":
                changed.append(field)
            case "type":
                changed.append(field._replace(type=draw(st.sampled_from(list(_SCALARS)))))
            case "oneof":
                oneof = draw(st.sampled_from(["", "o", "p"]))
                label = "" if oneof else field.label
                changed.append(field._replace(oneof=oneof, label=label))
    kept = {field.tag for field in changed}
    changed += [field for field in draw(messages()) if field.tag not in kept]
    return tuple(changed)


def text_of(fields: Fields) -> str:
    lines = ['syntax = "proto3";', "message M {"]
    for field in fields:
        declared = f"{field.label} {field.type} {field.name} = {field.tag};"
        lines.append(f"oneof {field.oneof} {{ {declared} }}" if field.oneof else declared)
    # A oneof is declared once, with all of its fields.
    for oneof in ("o", "p"):
        inside = [line for line in lines if line.startswith(f"oneof {oneof} ")]
        lines = [line for line in lines if line not in inside]
        if inside:
            bodies = [line.split("{", 1)[1].rsplit("}", 1)[0] for line in inside]
            lines.append(f"oneof {oneof} {{ {' '.join(bodies)} }}")
    return "\n".join([*lines, "}", f"message {_INNER} {{ int32 x = 1; }}"])


@st.composite
def values(draw: st.DrawFn, fields: Fields) -> dict[str, Any]:
    value: dict[str, Any] = {}
    chosen = {oneof: draw(st.integers(0, 5)) for oneof in ["o", "p"]}
    for field in fields:
        members = [other for other in fields if other.oneof == field.oneof]
        if field.oneof and members[chosen[field.oneof] % len(members)] != field:
            continue
        if draw(st.booleans()):
            one = _one(field.type)
            value[field.name] = draw(st.lists(one, max_size=3) if field.label else one)
    return value


def _one(kind: str) -> st.SearchStrategy[Any]:
    if kind == _INNER:
        return st.integers(-5, 5).map(lambda number: {"x": number})
    return _SCALARS[kind]


def class_of(text: str) -> Any:
    """Returns the class of the messages of a schema."""
    schema = parse("PROTOBUF", text)
    assert isinstance(schema, ProtobufSchema)
    pool = descriptor_pool.DescriptorPool()
    for file in compile_schema(schema, "m.proto").file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def written(text: str, value: dict[str, Any]) -> bytes:
    message = class_of(text)()
    for name, content in value.items():
        _set(message, name, content)
    return bytes(message.SerializeToString())


def _set(message: Any, name: str, content: Any) -> None:
    if isinstance(content, dict):
        getattr(message, name).SetInParent()
        getattr(message, name).x = content["x"]
    elif isinstance(content, list):
        for element in content:
            if isinstance(element, dict):
                getattr(message, name).add(x=element["x"])
            else:
                getattr(message, name).append(element)
    else:
        setattr(message, name, content)


def check_read(old: Fields, new: Fields, value: dict[str, Any], read: Any) -> None:
    """A field whose declaration stayed has the value that was written."""
    before = {field.tag: field for field in old}
    for field in new:
        same = before.get(field.tag)
        if same is not None and same.type == field.type and same.label == field.label:
            content = value.get(same.name)
            if content:
                assert _plain(getattr(read, field.name)) == content, field


def _plain(content: Any) -> Any:
    if hasattr(content, "append") or hasattr(content, "add"):
        return [_plain(element) for element in content]
    return {"x": content.x} if hasattr(content, "x") else content
