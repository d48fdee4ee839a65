"""Columns that come from a schema registry, and schemas that statements register.

CREATE STREAM or TABLE without columns takes those of the newest schema of the topic, or of the
schema that an id names. The columns are written into the statement before it goes into the command
topic: every server has the same, whatever is registered later. All functions block.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from odradek.connect.errors import ConnectError
from odradek.schemas import framing, proto_file
from odradek.schemas.errors import NotRegistered, RegistryFailed, SchemaError
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.sql.errors import Invalid, Place
from odradek.sql.formats.catalogue import Formats, made_of
from odradek.sql.formats.registered import RegisteredCodec
from odradek.sql.formats.types import Unsupported, kind_of
from odradek.sql.language.formatting import create_text
from odradek.sql.language.statements import ColumnDefinition, CreateSource
from odradek.sql.planning.sources import UNWRAPPING, DataSource, Format, key_codec, value_codec
from odradek.streams.formats.columns import UnfitColumns
from odradek.streams.plan.types import Column, SqlType, StructType

_KINDS: Final[dict[str, SchemaType]] = {
    "AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF",
}  # fmt: skip


def subject_of(topic: str, is_key: bool) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


class Inference:
    """Finds the columns of one statement."""

    def __init__(self, formats: Formats, topic: str, place: Place) -> None:
        self._formats = formats
        self._topic = topic
        self.place = place

    def columns(self, form: Format, is_key: bool) -> tuple[Column, ...]:
        """Returns the columns of the keys or values of the topic."""
        try:
            registry = self._formats.required(form.name, self._topic)
        except UnfitColumns as error:
            raise Invalid(str(error), self.place) from None
        known = self._known(registry, form, is_key)
        if known.kind != _KINDS[form.name]:
            wanted = "KEY_FORMAT" if is_key else "VALUE_FORMAT"
            raise self._invalid(
                f"{_part(is_key)} schema is not in the expected format. You may want to set"
                f" {wanted} to '{known.kind}'.\n{self._source(form)}\nexpected format:"
                f" {_KINDS[form.name]}\nactual format from Schema Registry: {known.kind}"
            )
        rename: Callable[[str], str] = str.upper if form.schema_id is None else str
        kind = self._kind(form, known, is_key, rename)
        is_unwrapped = form.name in UNWRAPPING and (is_key or form.is_wrapped is False)
        if is_unwrapped:
            return (Column("ROWKEY" if is_key else "ROWVAL", kind),)
        if not isinstance(kind, StructType):
            raise self._incompatible(
                form, is_key,
                "Schema returned from schema registry is anonymous type. To use this schema with"
                " ksqlDB, set 'WRAP_SINGLE_VALUE=false' in the WITH clause properties.",
            )  # fmt: skip
        if not kind.fields:
            raise self._incompatible(
                form, is_key, "Schema does not include any columns with types that ksqlDB supports."
            )
        if is_key and len(kind.fields) > 1:
            raise self._invalid(
                f"The key schema for {self._source(form)} contains multiple columns, which is not"
                " supported by ksqlDB at this time."
            )
        return tuple(Column(name, one) for name, one in kind.fields)

    def _known(self, registry: RegistryClient, form: Format, is_key: bool) -> KnownSchema:
        subject = subject_of(self._topic, is_key)
        try:
            if form.schema_id is not None:
                return registry.by_id(form.schema_id)
            return registry.latest(subject).schema
        except NotRegistered:
            shown = "" if form.schema_id is None else f"\nSchema Id: {form.schema_id}"
            raise self._invalid(
                f"Schema for message {'keys' if is_key else 'values'} on topic '{self._topic}' does"
                f" not exist in the Schema Registry.\nSubject: {subject}{shown}\nWrite the columns"
                " down, or register the schema."
            ) from None
        except RegistryFailed as error:
            raise self._invalid(
                f"Schema registry fetch for topic {'key' if is_key else 'value'} request failed for"
                f" {self._source(form)}: {error}"
            ) from None

    def _kind(
        self, form: Format, known: KnownSchema, is_key: bool, rename: Callable[[str], str]
    ) -> SqlType:
        try:
            path = self._message(form, known, is_key)
            schema = made_of(form).reading(known, path).schema
            if schema is None:
                raise Unsupported("it has no type")
            return kind_of(schema, rename)
        except (ConnectError, SchemaError, Unsupported) as error:
            raise self._incompatible(form, is_key, str(error)) from None

    def _message(self, form: Format, known: KnownSchema, is_key: bool) -> tuple[int, ...]:
        """Returns which message of a Protobuf file is meant."""
        if known.kind != "PROTOBUF":
            return framing.FIRST_MESSAGE
        file = proto_file.parse(known.text, (), dict(known.imports), is_new=False).file
        prefix = f"{file.package}." if file.package else ""
        names = [f"{prefix}{message.name}" for message in file.messages]
        if form.full_name is not None:
            if form.full_name not in names:
                raise self._invalid(
                    f"the schema has no message {form.full_name}, but {', '.join(names)}"
                )
            return (names.index(form.full_name),)
        if len(names) > 1:
            wanted = f"{'KEY' if is_key else 'VALUE'}_SCHEMA_FULL_NAME"
            listed = "\n".join(f"- {name}" for name in names)
            raise self._invalid(
                f"{_part(is_key)} schema has multiple schema definitions.\n\n{listed}\n\nPlease"
                f" specify a schema full name in the WITH clause using {wanted}"
            )
        return framing.FIRST_MESSAGE

    def _source(self, form: Format) -> str:
        shown = "" if form.schema_id is None else f", schema id: {form.schema_id}"
        return f"topic: {self._topic}{shown}"

    def _incompatible(self, form: Format, is_key: bool, reason: str) -> Invalid:
        return self._invalid(
            f"Unable to verify if the {'key' if is_key else 'value'} schema for"
            f" {self._source(form)} is compatible with ksqlDB.\nReason: {reason}"
        )

    def _invalid(self, message: str) -> Invalid:
        return Invalid(message, self.place)


def _part(is_key: bool) -> str:
    return "Key" if is_key else "Value"


def with_columns(
    statement: CreateSource, forms: tuple[Format, Format], formats: Formats, topic: str
) -> CreateSource:
    """Returns a statement with the columns that it leaves to the registry, and another text; itself
    if there are none. `forms` are the formats of keys and values. Raises `Invalid`."""
    key_format, value_format = forms
    inference = Inference(formats, topic, statement.place)
    given = statement.columns or ()
    keys = tuple(column for column in given if column.is_key)
    values = tuple(column for column in given if not column.is_key and column.header is None)
    headers = tuple(column for column in given if column.header is not None)
    for form, written, name in (
        (key_format, keys, "KEY_SCHEMA_ID"), (value_format, values, "VALUE_SCHEMA_ID"),
    ):  # fmt: skip
        if form.schema_id is None:
            continue
        if not form.is_registered:
            wanted = name.replace("SCHEMA_ID", "FORMAT")
            raise Invalid(
                f"{wanted} should support schema inference when {name} is provided. Current format"
                f" is {form.name}.", statement.place,
            )  # fmt: skip
        if written:
            raise Invalid(
                f"Table elements and {name} cannot both exist for create statement.",
                statement.place,
            )
    is_new = False
    if not keys and key_format.is_registered:
        keys, is_new = _definitions(statement, inference.columns(key_format, True), True), True
    if not values and value_format.is_registered:
        values, is_new = (
            _definitions(statement, inference.columns(value_format, False), False),
            True,
        )
    if not is_new:
        return statement
    # An id says which schema is written; the columns that it stands for are known now.
    made = replace(statement, columns=(*headers, *keys, *values))
    return replace(made, text=create_text(made))


def _definitions(
    statement: CreateSource, columns: tuple[Column, ...], is_key: bool
) -> tuple[ColumnDefinition, ...]:
    return tuple(
        ColumnDefinition(
            column.name, column.kind, statement.place, is_key, is_key and statement.is_table
        )
        for column in columns
    )


def register(formats: Formats, source: DataSource, place: Place, *, always: bool) -> None:
    """Registers the schemas of the keys and values of a stream or table: always for one that a
    query writes, else if the topic has none yet."""
    for form, is_key, codec_of in (
        (source.key_format, True, key_codec), (source.value_format, False, value_codec),
    ):  # fmt: skip
        if not form.is_registered:
            continue
        codec = codec_of(source, formats.make)
        codec = getattr(codec, "inner", codec)
        if not isinstance(codec, RegisteredCodec):
            continue
        subject = subject_of(source.topic, is_key)
        try:
            if form.schema_id is not None:
                _register_given(formats.required(form.name, source.topic), form, subject, place)
            if always or form.schema_id is not None or not _exists(formats, subject):
                codec.prepare()
        except (SchemaError, ConnectError, UnfitColumns) as error:
            raise Invalid(f"Could not register schema for topic: {error}", place) from None


def forget_schemas(formats: Formats, source: DataSource) -> list[str]:
    """Deletes the schemas of a topic that is deleted; returns what could not be done."""
    left = []
    for form, is_key in ((source.key_format, True), (source.value_format, False)):
        if not form.is_registered or formats.registry is None:
            continue
        subject = subject_of(source.topic, is_key)
        try:
            formats.registry.delete_subject(subject)
        except NotRegistered:
            continue
        except RegistryFailed as error:
            left.append(f"the schemas of {subject} are not deleted: {error}")
    return left


def _exists(formats: Formats, subject: str) -> bool:
    assert formats.registry is not None
    try:
        formats.registry.latest(subject)
    except NotRegistered:
        return False
    return True


def _register_given(registry: RegistryClient, form: Format, subject: str, place: Place) -> None:
    """Registers the schema of an id for a topic: it must keep its id."""
    assert form.schema_id is not None
    known = registry.by_id(form.schema_id)
    if known.kind != _KINDS[form.name]:
        raise Invalid(
            f"Format and fetched schema type using {form.schema_id} are different. Format:"
            f" [{form.name}], Fetched schema type: [{known.kind}].", place,
        )  # fmt: skip
    references = registry.references_of(form.schema_id) if known.imports else ()
    found = registry.register(subject, known.kind, known.text, references)
    if found != form.schema_id:
        raise Invalid(
            f"Schema id registered is {found} which is different from provided {form.schema_id}."
            f" Subject: {subject}", place,
        )  # fmt: skip


def check_columns(
    form: Format, columns: tuple[Column, ...], inference: Inference, is_key: bool
) -> None:
    """Raises if a query's columns are none of those of the schema that an id names."""
    if form.schema_id is None:
        return
    known = inference.columns(form, is_key)
    missing = [str(column) for column in columns if column not in known]
    if missing:
        raise Invalid(
            f"The following {'key' if is_key else 'value'} columns are changed, missing or"
            f" reordered: [{', '.join(missing)}]. Schema from schema registry is"
            f" [{', '.join(map(str, known))}]", inference.place,
        )  # fmt: skip
