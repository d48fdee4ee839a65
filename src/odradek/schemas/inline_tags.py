"""Tags that stand in a schema itself, at a record or a field: `confluent:tags` in Avro and JSON
Schema, `tags` of the options `confluent.message_meta` and `confluent.field_meta` in Protobuf.

The registry lists them (`findTags`), adds and removes them, and lets a new version take over those
of the version before. A place has a path, as Confluent's registry names it:

    AVRO      ns.Order, ns.Order.card      full name of the record, and a field of it
    JSON      object, object.card.object   keywords on the way: object, array, allof.0, not, ...
    PROTOBUF  Order, Order.Line.card       messages without the package, and a field

All work is on a schema's canonical text, which was parsed and judged before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.json_text import print_json, read_json
from odradek.schemas.proto_model import Field, Message, Option, ProtoFile, Value
from odradek.schemas.proto_parsing import parse_proto
from odradek.schemas.proto_printing import print_proto

RECORD: Final = "sr_record"
FIELD: Final = "sr_field"
_TAGS: Final = "confluent:tags"
_META: Final = {RECORD: "confluent.message_meta", FIELD: "confluent.field_meta"}
_META_FILE: Final = "confluent/meta.proto"
_COMBINED: Final = ("allOf", "anyOf", "oneOf")


class SchemaEntity(msgspec.Struct, frozen=True, rename="camel"):
    """A place in a schema. `entity_type` is `sr_record` or `sr_field`."""

    entity_path: str
    entity_type: str

    @property
    def key(self) -> tuple[str, str]:
        return self.entity_path.removeprefix("."), self.entity_type


class SchemaTags(msgspec.Struct, frozen=True, rename="camel"):
    """A place in a schema with its tags."""

    schema_entity: SchemaEntity
    tags: list[str]


class _Place(NamedTuple):
    """A record or field of a schema in JSON: `node` is its object."""

    path: str
    kind: str
    node: dict[str, Any]


def tags_in(schema_type: str, text: str) -> list[SchemaTags]:
    """Returns the places of a schema that have tags, in the order of the text."""
    if schema_type == "PROTOBUF":
        return [
            SchemaTags(SchemaEntity(path, kind), found)
            for path, kind, options in _proto_places(parse_proto(text))
            if (found := _tags_of_options(kind, options))
        ]
    return [
        SchemaTags(SchemaEntity(place.path, place.kind), found)
        for place in _json_places(schema_type, read_json(text, exact=True))
        if (found := _tags_of_node(place.node))
    ]


def with_tags(
    schema_type: str,
    text: str,
    added: Iterable[SchemaTags],
    removed: Iterable[SchemaTags],
    *,
    must_exist: bool = True,
) -> str:
    """Returns a schema with more and fewer tags. Raises `InvalidSchema` if a place is not in it and
    must be."""
    changes: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for index, asked in enumerate((added, removed)):
        for one in asked:
            changes.setdefault(one.schema_entity.key, ([], []))[index].extend(one.tags)
    if not changes:
        return text
    if schema_type == "PROTOBUF":
        tagged = _with_proto_tags(parse_proto(text), changes)
        if must_exist:
            _require_found(changes)
        return tagged
    source = read_json(text, exact=True)
    for place in _json_places(schema_type, source):
        change = changes.pop((place.path, place.kind), None)
        if change is not None:
            left = _changed(_tags_of_node(place.node), *change)
            place.node.pop(_TAGS, None)
            if left:
                place.node[_TAGS] = left
    if must_exist:
        _require_found(changes)
    return print_json(source)


def _changed(tags: Sequence[str], added: Sequence[str], removed: Sequence[str]) -> list[str]:
    return [tag for tag in dict.fromkeys((*tags, *added)) if tag not in removed]


def _require_found(changes: Iterable[tuple[str, str]]) -> None:
    for path, kind in changes:
        what = {RECORD: "record", FIELD: "field"}.get(kind)
        if what is None:
            raise InvalidSchema(f"a tagged place is an {RECORD} or an {FIELD}, not {kind[:100]!r}")
        raise InvalidSchema(f"the schema has no {what} {path[:200]!r} to tag")


# Avro and JSON Schema


def _tags_of_node(node: dict[str, Any]) -> list[str]:
    tags = node.get(_TAGS)
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def _json_places(schema_type: str, source: Any) -> Iterator[_Place]:
    return _avro_places(source, "") if schema_type == "AVRO" else _draft_places(source, "")


def _avro_places(node: Any, namespace: str) -> Iterator[_Place]:
    if isinstance(node, list):
        for member in node:
            yield from _avro_places(member, namespace)
    if not isinstance(node, dict):
        return
    if node.get("type") in {"record", "error"}:
        name = str(node["name"])
        if "." not in name:
            space = node.get("namespace", namespace)
            name = f"{space}.{name}" if space else name
        yield _Place(name, RECORD, node)
        for field in node["fields"]:
            yield _Place(f"{name}.{field['name']}", FIELD, field)
            yield from _avro_places(field["type"], name.rpartition(".")[0])
    for inner in ("type", "items", "values"):
        yield from _avro_places(node.get(inner), namespace)


def _draft_places(node: Any, scope: str, *, is_field: bool = False) -> Iterator[_Place]:
    """Yields the places of a JSON Schema. An object that is a property is no record of its own."""
    if not isinstance(node, dict):
        return
    if isinstance(node.get("properties"), dict) or node.get("type") == "object":
        name = f"{scope}object"
        if not is_field:
            yield _Place(name, RECORD, node)
        for key, inner in _members(node, "properties"):
            if isinstance(inner, dict):
                yield _Place(f"{name}.{key}", FIELD, inner)
                yield from _draft_places(inner, f"{name}.{key}.", is_field=True)
        for keyword in ("definitions", "$defs"):
            for key, inner in _members(node, keyword):
                yield from _draft_places(inner, f"{name}.{keyword}.{key}.")
    for keyword in _COMBINED:
        if isinstance(node.get(keyword), list):
            for index, inner in enumerate(node[keyword]):
                yield from _draft_places(inner, f"{scope}{keyword.lower()}.{index}.")
    yield from _draft_places(node.get("items"), f"{scope}array.")
    yield from _draft_places(node.get("not"), f"{scope}not.")
    for keyword in ("if", "then", "else"):
        yield from _draft_places(node.get(keyword), f"{scope}conditional.{keyword}.")


def _members(node: dict[str, Any], keyword: str) -> Iterable[tuple[str, Any]]:
    members = node.get(keyword)
    return members.items() if isinstance(members, dict) else ()


# Protobuf


def _proto_places(file: ProtoFile) -> Iterator[tuple[str, str, tuple[Option, ...]]]:
    for message in file.messages:
        yield from _message_places(message, "")


def _message_places(message: Message, scope: str) -> Iterator[tuple[str, str, tuple[Option, ...]]]:
    name = scope + message.name
    yield name, RECORD, message.options
    for field, _ in message.all_fields():
        yield f"{name}.{field.name}", FIELD, field.options
    for nested in message.messages:
        yield from _message_places(nested, f"{name}.")


def _meta_of(kind: str, options: Iterable[Option]) -> dict[str, Value]:
    """Returns the members of the option that has the tags, from both ways to write it:
    `(meta) = {tags: "a"}` and `(meta).tags = "a"`."""
    members: dict[str, Value] = {}
    for option in options:
        if not _is_meta(kind, option):
            continue
        if option.value.kind == "map":
            members.update(option.value.content)
        elif option.value.kind == "option":
            inner: Option = option.value.content
            old = members.get(inner.name)
            merged = (*_elements(old), *_elements(inner.value))
            members[inner.name] = inner.value if old is None else Value("list", merged)
    return members


def _is_meta(kind: str, option: Option) -> bool:
    return option.is_extension and option.name.removeprefix(".") == _META[kind]


def _elements(value: Value | None) -> tuple[Value, ...]:
    if value is None:
        return ()
    return tuple(value.content) if value.kind == "list" else (value,)


def _tags_of_options(kind: str, options: Iterable[Option]) -> list[str]:
    tags = _elements(_meta_of(kind, options).get("tags"))
    return list(dict.fromkeys(str(tag.content) for tag in tags))


def _with_proto_tags(
    file: ProtoFile, changes: dict[tuple[str, str], tuple[list[str], list[str]]]
) -> str:
    messages = tuple(_changed_message(message, "", changes) for message in file.messages)
    imports = file.imports
    if _META_FILE not in (*imports, *file.public_imports, *file.weak_imports):
        imports = (*imports, _META_FILE)
    return print_proto(replace(file, messages=messages, imports=imports))


def _changed_message(
    message: Message, scope: str, changes: dict[tuple[str, str], tuple[list[str], list[str]]]
) -> Message:
    name = scope + message.name

    def options_of(path: str, kind: str, options: tuple[Option, ...]) -> tuple[Option, ...]:
        change = changes.pop((path, kind), None)
        return options if change is None else _changed_options(kind, options, *change)

    def changed(fields: Iterable[Field]) -> tuple[Field, ...]:
        return tuple(
            replace(field, options=options_of(f"{name}.{field.name}", FIELD, field.options))
            for field in fields
        )

    return replace(
        message,
        options=options_of(name, RECORD, message.options),
        fields=changed(message.fields),
        oneofs=tuple(replace(oneof, fields=changed(oneof.fields)) for oneof in message.oneofs),
        messages=tuple(_changed_message(one, f"{name}.", changes) for one in message.messages),
    )


def _changed_options(
    kind: str, options: tuple[Option, ...], added: list[str], removed: list[str]
) -> tuple[Option, ...]:
    members = _meta_of(kind, options)
    tags = _changed(_tags_of_options(kind, options), added, removed)
    members.pop("tags", None)
    if tags:
        members["tags"] = Value("list", tuple(Value("string", tag) for tag in tags))
    others = tuple(option for option in options if not _is_meta(kind, option))
    if not members:
        return others
    return (*others, Option(_META[kind], True, Value("map", tuple(members.items()))))
