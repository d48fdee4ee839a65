"""Descriptors of our own compiler, beside those of protoc."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from odradek.schemas import protobuf_descriptors
from odradek.schemas.errors import BadSchema
from odradek.schemas.protobuf_descriptors import ProtobufSchema

_EXTENDED = """
syntax = "proto2";
message Base { optional int32 n = 1; extensions 100 to 200; }
extend Base { optional string more = 100; }
"""


def _roots() -> list[Path]:
    """Returns the directories of the `.proto` files that come with grpcio-tools and with
    googleapis-common-protos."""
    tools, apis = find_spec("grpc_tools"), find_spec("google.api.annotations_pb2")
    assert tools is not None
    assert tools.origin is not None
    assert apis is not None
    assert apis.origin is not None
    return [Path(tools.origin).parent / "_proto", Path(apis.origin).parents[2]]


def _texts(roots: list[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    for root in roots:
        for path in sorted((root / "google").rglob("*.proto")):
            found.setdefault(str(path.relative_to(root)), path.read_text())
    return found


def _by_protoc(roots: list[Path], names: list[str], out: Path) -> dict[str, Any]:
    words = [f"-I{root}" for root in roots]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *words, f"--descriptor_set_out={out}", *names],
        check=True,
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    return {file.name: file for file in files}


def _for_data(part: Any) -> None:
    """Takes away what says nothing about data: most options, and extensions of options."""
    kept = {"packed", "map_entry", "allow_alias"}
    for field, content in part.ListFields():
        if field.name == "options":
            for option, _ in content.ListFields():
                if option.name not in kept:
                    content.ClearField(option.name)
            content.DiscardUnknownFields()
            if not content.ListFields():
                part.ClearField("options")
        elif field.name in {"extension", "source_code_info", "extension_range", "reserved_range"}:
            part.ClearField(field.name)
        elif field.message_type is not None:
            for each in content:
                _for_data(each)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _needed(name: str, files: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for each in files[name].dependency:
        found |= {each, *_needed(each, files)}
    return found


def test_what_data_needs_is_as_protoc_has_it(tmp_path: Path) -> None:
    roots = _roots()
    texts = _texts(roots)
    files = _by_protoc(roots, list(texts), tmp_path / "all")
    here = 0
    for name, text in texts.items():
        imports = {each: texts[each] for each in sorted(_needed(name, files))}
        compiled = protobuf_descriptors._compiled_here(text, imports)
        if compiled is None:
            continue
        here += 1
        ours, theirs = compiled.file[-1], files[name]
        for file in (ours, theirs):
            file.name = name
            file.syntax = file.syntax or "proto2"
            _for_data(file)
            _without_default_names(file.message_type)
        assert str(ours).splitlines() == str(theirs).splitlines(), name
        protobuf_descriptors._linked(compiled)
    assert here >= 40, (here, len(texts))


def _without_default_names(messages: Any) -> None:
    for message in messages:
        for field in message.field:
            if field.json_name == _camel(field.name):
                field.ClearField("json_name")
        _without_default_names(message.nested_type)


def test_fields_that_extend_messages_are_compiled_by_protoc() -> None:
    assert protobuf_descriptors._compiled_here(_EXTENDED, {}) is None
    message = ProtobufSchema.from_text(_EXTENDED).message()
    assert [field.full_name for field in message.file.pool.FindAllExtensions(message)] == ["more"]


def test_without_protoc_schemas_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    text = 'syntax = "proto3"; message A { int32 n = 1; map<string, A> more = 2; }'
    assert ProtobufSchema.from_text(text).message().full_name == "A"
    with pytest.raises(BadSchema, match=r"needs protoc: .*pip install"):
        ProtobufSchema.from_text(_EXTENDED)
    with pytest.raises(BadSchema, match="line 1"):
        ProtobufSchema.from_text('syntax = "proto3"; mess A {}')
