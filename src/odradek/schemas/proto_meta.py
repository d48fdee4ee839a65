"""`confluent/meta.proto`: Confluent's options, with which a Protobuf schema has documentation, tags
and rules. Clients encrypt fields by their tags, so that no way to write a schema may lose them.

A compiled file has an option by its number alone. The classes of `google.protobuf` know no options
of others, unless these are registered with them for the whole process, where a client in the same
process may have registered its own. So there are classes of our own for it.
"""

from functools import cache
from typing import Any, Final

from odradek.schemas.proto_model import Extend, Field, Message, ProtoFile

META_NAME: Final = "confluent/meta.proto"
_GOOGLE: Final = "google/protobuf/descriptor.proto"
_TAG: Final = 1088
META: Final = ProtoFile(
    "proto3",
    "confluent",
    (_GOOGLE,),
    messages=(
        Message(
            "Meta",
            (
                Field("doc", 1, "string"),
                Field("params", 2, "map<string, string>"),
                Field("tags", 3, "string", "repeated"),
                Field("rules", 4, "Rule", "repeated"),
            ),
        ),
        Message(
            "Rule",
            tuple(
                Field(name, number, "string")
                for number, name in enumerate(("name", "doc", "expr", "sql"), 1)
            ),
        ),
    ),
    extends=tuple(
        Extend(f"google.protobuf.{whose}Options", (Field(f"{name}_meta", _TAG, "Meta"),))
        for whose, name in (
            ("File", "file"),
            ("Message", "message"),
            ("Field", "field"),
            ("Enum", "enum"),
            ("EnumValue", "enum_value"),
        )
    ),
)


@cache
def descriptor_class() -> Any:
    """Returns a class like `FileDescriptorProto` whose objects have these options too."""
    from google.protobuf import (  # noqa: PLC0415 - see parsed
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    from odradek.schemas.proto_compiling import compile_schema  # noqa: PLC0415 - it imports us
    from odradek.schemas.proto_file import ProtobufSchema  # noqa: PLC0415

    compiled = compile_schema(ProtobufSchema(META, {}, ()), META_NAME).file[-1]
    compiled.dependency.append(_GOOGLE)
    kinds = descriptor_pb2.FieldDescriptorProto
    for extend in META.extends:
        for field in extend.fields:
            compiled.extension.add(
                name=field.name,
                number=field.tag,
                label=kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE,
                type_name=".confluent.Meta",
                extendee=f".{extend.name}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(compiled.SerializeToString())
    found = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    return message_factory.GetMessageClass(found)
