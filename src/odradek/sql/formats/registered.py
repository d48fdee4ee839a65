"""Codecs of rows with a schema of Avro, Protobuf or JSON.

A codec is made without asking the registry. Where it has to ask, `encode` and `decode` raise
`MustBlock` (`odradek.world.blocking_calls`): on the event loop nobody waits. `prepare` asks for
everything that writing needs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from odradek.connect.converters.protobuf_converter import Protobuf, codec_of
from odradek.connect.converters.protobuf_names import ProtobufConverterSettings
from odradek.connect.converters.protobuf_writing import ProtobufText, ProtobufValues
from odradek.connect.converters.registry_converter import Format as Made
from odradek.connect.converters.registry_converter import Writing
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import ConnectError
from odradek.schemas import framing
from odradek.schemas.errors import RegistryFailed, RegistryUnreachable, SchemaError
from odradek.schemas.framing import Identified
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.context import SerializationContext
from odradek.schemas.serializers.preparations import Preparations
from odradek.sql.formats.types import Convert, into, or_null, out_of, picker
from odradek.streams.formats.columns import BadRow, RowCodec, UnfitColumns
from odradek.streams.plan.types import Column

_CAPACITY: Final = 200
Row = tuple[Any, ...]


class RegisteredCodec(RowCodec):
    """Rows with a frame that names their schema. `schema` is that of the rows as Connect has it,
    with `schema_id` the one of that id is written."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        is_key: bool,
        is_wrapped: bool,
        topic: str,
        made: Made,
        schema: Schema,
        client: RegistryClient,
        schema_id: int | None = None,
        name_of: Convert = str,
    ) -> None:
        super().__init__(columns, is_key=is_key)
        self._is_wrapped = is_wrapped
        self._field = "key" if is_key else "value"
        self._context = SerializationContext(topic, self._field)
        self._made = made
        self._client = client
        self._schema_id = schema_id
        self._to_connect = connect_value(columns, is_wrapped, name_of)
        self._writings: Preparations[Writing] = Preparations(2)
        self._readers: Preparations[Callable[[bytes, int], Row | None]] = Preparations(_CAPACITY)
        self._writing: Writing | None = None
        if schema_id is None:
            # What cannot be written is known before anything is asked.
            self._writing = self._written(schema)

    def _written(self, schema: Schema) -> Writing:
        conf: dict[str, object] = dict(self._made.conf)
        if self._schema_id is not None:
            conf |= {"auto.register.schemas": False, "use.schema.id": self._schema_id}
        try:
            return self._made.writing(schema, self._client, conf)
        except (ConnectError, SchemaError) as error:
            raise UnfitColumns(str(error)) from None

    # Writing

    def prepare(self) -> None:
        """Registers the schema, or looks it up, and blocks for that. Raises what the registry
        raises."""
        writing = self._prepared_writing(True)
        writing.serializer.settle(dict, self._context)

    def _prepared_writing(self, may_block: bool) -> Writing:
        if self._writing is None:
            self._writing = self._writings.find("", self._physical, may_block)
        return self._writing

    def _physical(self) -> Writing:
        """Returns how the schema of a given id is written."""
        assert self._schema_id is not None
        known = self._client.by_id(self._schema_id)
        if known.kind != self._made.kind:
            raise UnfitColumns(
                f"the schema {self._schema_id} is of type {known.kind}, not {self._made.kind}"
            )
        found = self._made.reading(known, framing.FIRST_MESSAGE).schema
        assert found is not None
        return self._written(found)

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        try:
            value = self._to_connect(row)
            if value is None:
                return None
            writing = self._prepared_writing(False)
            plain = writing.to_plain(value)
            return writing.serializer.without_blocking().serialize(plain, self._context)
        except RegistryFailed:
            raise
        except (ConnectError, SchemaError) as error:
            raise ValueError(str(error)) from None

    # Reading

    def _decode(self, data: bytes) -> Row | None:
        try:
            found = framing.identify(data, None, self._field)
            path, start = self._made.path(found)
            prepare = partial(self._reader, found, path)
            return self._readers.find((found.schema, path), prepare, False)(data, start)
        except RegistryUnreachable:
            raise
        except (ConnectError, SchemaError) as error:
            raise BadRow(str(error)) from None

    def _reader(
        self, found: Identified, path: tuple[int, ...]
    ) -> Callable[[bytes, int], Row | None]:
        known = self._client.by_id_or_guid(found.schema)
        if known.kind != self._made.kind:
            raise BadRow(f"its schema is of type {known.kind}, not {self._made.kind}")
        reading = self._made.reading(known, path)
        if reading.schema is None:
            raise BadRow("its schema has no type")
        convert = row_of(reading.schema, self.columns, self._is_wrapped)
        read = reading.read
        return lambda data, start: convert(read(data, start))


def connect_value(
    columns: Sequence[Column], is_wrapped: bool, name_of: Convert
) -> Callable[[Sequence[Any]], Any]:
    """Returns what makes Connect's value of a row."""
    converts = [or_null(into(column.kind, name_of)) for column in columns]
    if not is_wrapped:
        (convert,) = converts
        return lambda row: convert(row[0])
    parts = [
        (name_of(column.name), convert) for column, convert in zip(columns, converts, strict=True)
    ]
    return lambda row: {
        name: convert(value) for (name, convert), value in zip(parts, row, strict=True)
    }


def row_of(
    schema: Schema, columns: Sequence[Column], is_wrapped: bool
) -> Callable[[Any], Row | None]:
    """Returns what makes a row of Connect's value. Raises `BadRow` if the schema is another one."""
    if not is_wrapped:
        convert = or_null(out_of(schema, columns[0].kind))
        return lambda value: (convert(value),)
    if schema.type is not Type.STRUCT:
        raise BadRow(f"its schema is {schema.type}, and rows have {len(columns)} columns")
    pick = picker(schema, tuple((column.name, column.kind) for column in columns))
    return lambda value: None if value is None else pick(value)


class PlainProtobufCodec(RowCodec):
    """Rows as messages of Protobuf without a frame: readers have to know the columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        is_key: bool,
        schema: Schema,
        properties: Mapping[str, str],
    ) -> None:
        super().__init__(columns, is_key=is_key)
        settings = ProtobufConverterSettings.read(properties)
        try:
            text = ProtobufText(schema, settings)
            self._codec = codec_of(text.text, text.message)
            self._plain = ProtobufValues(settings).writer(schema)
            known = KnownSchema("PROTOBUF", text.text)
            reading = Protobuf(settings).reading(known, framing.FIRST_MESSAGE)
        except (ConnectError, SchemaError) as error:
            raise UnfitColumns(str(error)) from None
        self._to_connect = connect_value(columns, True, str)
        assert reading.schema is not None
        self._read = reading.read
        self._row_of = row_of(reading.schema, columns, True)

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        try:
            return self._codec.encode(self._plain(self._to_connect(row)))
        except (ConnectError, SchemaError) as error:
            raise ValueError(str(error)) from None

    def _decode(self, data: bytes) -> Row | None:
        try:
            return self._row_of(self._read(data, 0))
        except (ConnectError, SchemaError) as error:
            raise BadRow(str(error)) from None
