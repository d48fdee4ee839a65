"""Makes what a registry stores into what protoc compiles.

Two things stand in stored texts that protoc refuses: messages of maps, as compiled files have them,
where a text must have `map<K, V>`; and imports that registries know without a reference, but protoc
does not, such as `confluent/meta.proto`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.schemas.proto_descriptors import well_known
from odradek.schemas.proto_meta import META, META_NAME
from odradek.schemas.proto_model import Field, Message, ProtoFile
from odradek.schemas.proto_parsing import parse_proto
from odradek.schemas.proto_printing import print_proto

_MAP_ENTRY: Final = "map_entry"
_PROTOC_KNOWS: Final = "google/protobuf/"


def for_protoc(text: str) -> str:
    """Returns a text that protoc compiles to the descriptor of the given one, but for the order of
    messages within others, which `restore_order` brings back."""
    return print_proto(_with_maps(parse_proto(text))) if _MAP_ENTRY in text else text


def restore_order(text: str, file: Any) -> None:
    """Sorts the messages within the messages of a descriptor as they stand in a text. The places of
    messages are in front of values, and protoc puts those of maps where their fields are."""
    if _MAP_ENTRY in text:
        _sort(parse_proto(text).messages, file.message_type)


def _sort(messages: Iterable[Message], compiled: Iterable[Any]) -> None:
    by_name = {one.name: one for one in compiled}
    for message in messages:
        made = by_name.get(message.name)
        if made is None:
            continue
        _sort(message.messages, made.nested_type)
        places = {one.name: place for place, one in enumerate(message.messages)}
        made.nested_type.sort(key=lambda one: places.get(one.name, len(places)))


def missing_imports(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of files that these import, by their names, which neither are among them
    nor come with protoc, as far as they are known."""
    found: dict[str, str] = {}
    waiting = [parse_proto(text) for text in texts.values() if "import" in text]
    while waiting:
        file = waiting.pop()
        for name in (*file.imports, *file.public_imports, *file.weak_imports):
            if name in texts or name in found or name.startswith(_PROTOC_KNOWS):
                continue
            known = META if name == META_NAME else well_known(name)
            if known is not None:
                found[name] = print_proto(known)
                waiting.append(known)
    return found


def _with_maps(file: ProtoFile) -> ProtoFile:
    return replace(file, messages=tuple(map(_message, file.messages)))


def _message(message: Message) -> Message:
    maps = {one.name: _map_type(one) for one in message.messages if one.is_map_entry}
    return replace(
        message,
        fields=tuple(_field(field, message.name, maps) for field in message.fields),
        messages=tuple(_message(one) for one in message.messages if not one.is_map_entry),
        groups=tuple(replace(one, message=_message(one.message)) for one in message.groups),
    )


def _map_type(entry: Message) -> str:
    kinds = {field.name: field.type for field in entry.fields}
    return f"map<{kinds.get('key', '')}, {kinds.get('value', '')}>"


def _field(field: Field, message: str, maps: Mapping[str, str]) -> Field:
    """Returns a field, as a map if its type is one of the messages that stand for maps. A type may
    be written with the message around it, and with the package."""
    outside, _, name = field.type.rpartition(".")
    is_inside = not outside or outside.split(".")[-1] == message
    if name not in maps or not is_inside:
        return field
    return replace(field, type=maps[name], label="")
