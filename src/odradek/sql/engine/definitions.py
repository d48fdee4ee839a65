"""A CREATE statement as a stream or table, with every check that needs no broker."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Place
from odradek.sql.formats import inferring
from odradek.sql.formats.catalogue import Formats
from odradek.sql.functions.java_times import java_time_format
from odradek.sql.language.statements import ColumnDefinition, CreateSource, GivenProperties
from odradek.sql.planning.keys import check_key_type
from odradek.sql.planning.scope import SYSTEM
from odradek.sql.planning.sources import (
    REGISTERED,
    UNWRAPPING,
    WITHOUT_REGISTRY,
    DataSource,
    Format,
    MakeCodec,
    WindowInfo,
    avro_key_name,
)
from odradek.streams.formats.columns import UnfitColumns
from odradek.streams.plan.types import BYTES, STRING, ArrayType, Column, Schema, StructType

_TOPIC: Final = ("KAFKA_TOPIC", "PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY")
_FORMATS: Final = (
    "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "WRAP_SINGLE_VALUE", "KEY_DELIMITER",
    "VALUE_DELIMITER",
)  # fmt: skip
_TIMES: Final = ("TIMESTAMP", "TIMESTAMP_FORMAT")
_WINDOWS: Final = ("WINDOW_TYPE", "WINDOW_SIZE")
_REGISTRY: Final = (
    "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID", "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME",
    "VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
)  # fmt: skip
_NULLABLES: Final = ("OPTIONAL", "WRAPPER")
FORMAT_NAMES: Final = (*WITHOUT_REGISTRY, *REGISTERED)
_HEADERS: Final = ArrayType(StructType((("KEY", STRING), ("VALUE", BYTES))))
_UNITS: Final = {
    "MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000,
}  # fmt: skip


@dataclass(frozen=True)
class TopicWish:
    """The topic that a statement names, and how it is made if there is none."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    cleanup_policy: str | None = None


@dataclass(frozen=True)
class Defaults:
    """What holds where WITH says nothing."""

    key_format: str = "KAFKA"
    value_format: str | None = None
    formats: Formats = field(default_factory=lambda: Formats(None))
    is_wrapped: bool | None = None
    """Whether a value of one column is a record, in formats that have both."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """How many values the arrays of aggregate functions have at most, by name; -1 is any number."""

    def wrapped(self, form: Format, columns: Sequence[Column]) -> Format:
        """Returns the format of values with the default wrapping, if it has one and WITH says
        nothing."""
        is_open = form.is_wrapped is None and form.name in UNWRAPPING and len(columns) == 1
        return replace(form, is_wrapped=self.is_wrapped) if is_open else form

    @property
    def make(self) -> MakeCodec:
        return self.formats.make


def _places(given: Mapping[str, Any]) -> Mapping[str, Place]:
    """Returns where the properties of WITH stand, if that is known."""
    return given.places if isinstance(given, GivenProperties) else {}


class Properties:
    """The properties of WITH, each with its type."""

    def __init__(
        self, given: Mapping[str, Any], place: Place, *, of_query: bool, strict: bool = True
    ) -> None:
        known = [*_TOPIC, *_FORMATS, *_TIMES, *_REGISTRY]
        if not of_query:
            known += _WINDOWS
        for name in given:
            if strict and name.upper() not in known:
                near = did_you_mean(name.upper(), known) or f"; there are {', '.join(known)}"
                raise Invalid(f"WITH has no property {name}{near}", _places(given).get(name, place))
        self._given = {name.upper(): value for name, value in given.items()}
        self._place = place
        self._places = {name.upper(): one for name, one in _places(given).items()}

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def place(self, *names: str) -> Place:
        """Returns where the first of these properties stands that is given; else the statement."""
        found = (self._places[name] for name in names if name in self._places)
        return next(found, self._place)

    def text(self, name: str) -> str | None:
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise Invalid(
                f"{name} must be a string in single quotes, not {value}", self.place(name)
            )
        return value

    def number(self, name: str) -> int | None:
        value = self._given.get(name)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise Invalid(f"{name} is a whole number, not {value}", self.place(name))
        return value

    def boolean(self, name: str) -> bool | None:
        value = self._given.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is not None and not isinstance(value, bool):
            raise Invalid(f"{name} is true or false, not {value}", self.place(name))
        return value

    def topic(self, default: str) -> TopicWish:
        partitions, replicas = self.number("PARTITIONS"), self.number("REPLICAS")
        if partitions is not None and partitions < 1:
            raise Invalid(f"PARTITIONS is 1 at least, not {partitions}", self.place("PARTITIONS"))
        name = self.text("KAFKA_TOPIC")
        if name is not None and not name.strip():
            raise Invalid("KAFKA_TOPIC is the name of a topic, not ''", self.place("KAFKA_TOPIC"))
        return TopicWish(
            name or default, partitions, replicas,
            self.number("RETENTION_MS"), self.text("CLEANUP_POLICY"),
        )  # fmt: skip

    def format_name(self, name: str, default: str | None) -> str:
        both = self.text("FORMAT")
        own = self.text(name)
        if both is not None and own is not None:
            raise Invalid(f"Cannot supply both '{name}' and 'FORMAT' properties", self.place(name))
        chosen = (own or both or default or "").upper()
        if not chosen:
            raise Invalid(
                f"Statement is missing the '{name}' property from the WITH clause. Either provide"
                f" one or set a default via the 'ksql.persistence.default.format.value' config.",
                self._place,
            )
        if chosen not in FORMAT_NAMES:
            raise Invalid(
                f"Unknown format: {chosen}{did_you_mean(chosen, list(FORMAT_NAMES))}",
                self.place(name, "FORMAT"),
            )
        return chosen

    def key_format(self, default: str, source: str) -> Format:
        """`source` is the name of the stream or table, which Avro's records are called after."""
        name = self.format_name("KEY_FORMAT", default)
        full_name = self.text("KEY_SCHEMA_FULL_NAME")
        if full_name is None and name == "AVRO":
            full_name = avro_key_name(source)
        form = Format(name, delimiter=self.text("KEY_DELIMITER") or ",")
        return self._with_schema(form, "KEY", full_name)

    def value_format(self, default: str | None) -> Format:
        name = self.format_name("VALUE_FORMAT", default)
        if name == "NONE":
            raise Invalid(
                "The 'NONE' format can only be used as a key format",
                self.place("VALUE_FORMAT", "FORMAT"),
            )
        form = Format(name, self.boolean("WRAP_SINGLE_VALUE"), self.text("VALUE_DELIMITER") or ",")
        full_name = self.text("VALUE_AVRO_SCHEMA_FULL_NAME") or self.text("VALUE_SCHEMA_FULL_NAME")
        return self._with_schema(form, "VALUE", full_name)

    def _with_schema(self, form: Format, part: str, full_name: str | None) -> Format:
        """Returns a format with what WITH says about its schema. Raises if it has none."""
        name = form.name
        representation = f"{part}_PROTOBUF_NULLABLE_REPRESENTATION"
        nullable = self.text(representation)
        if nullable is not None:
            if not name.startswith("PROTOBUF"):
                raise Invalid(
                    f"Property {representation} can only be enabled with protobuf format",
                    self.place(representation),
                )  # fmt: skip
            nullable = nullable.upper()
            if nullable not in _NULLABLES:
                raise Invalid(
                    f"{representation} is {' or '.join(_NULLABLES)}, not {nullable}",
                    self.place(representation),
                )  # fmt: skip
        if full_name is not None and not full_name.strip():
            raise Invalid(
                f"{part}_SCHEMA_FULL_NAME cannot be empty.", self.place(f"{part}_SCHEMA_FULL_NAME")
            )
        given = {"schemaId": self.number(f"{part}_SCHEMA_ID"), "fullSchemaName": full_name}
        unfit = [key for key, value in given.items() if value is not None]
        if unfit and not form.is_registered:
            raise Invalid(
                f"{name} does not support the following configs: [{', '.join(unfit)}]",
                self.place(
                    f"{part}_SCHEMA_ID", f"{part}_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME"
                ),
            )
        delimiter = f"{part}_DELIMITER"
        if delimiter in self and name != "DELIMITED":
            raise Invalid(
                f"{name} does not support the following configs: [delimiter]",
                self.place(delimiter),
            )
        return replace(
            form, schema_id=self.number(f"{part}_SCHEMA_ID"), full_name=full_name, nullable=nullable
        )

    def window(self) -> WindowInfo | None:
        kind, size = self.text("WINDOW_TYPE"), self.text("WINDOW_SIZE")
        if kind is None:
            if size is not None:
                raise Invalid("WINDOW_SIZE needs WINDOW_TYPE", self.place("WINDOW_SIZE"))
            return None
        kind = kind.upper()
        if kind == "SESSION":
            if size is not None:
                raise Invalid(
                    "'WINDOW_SIZE' should not be set for SESSION windows.",
                    self.place("WINDOW_SIZE"),
                )
            return WindowInfo(kind)
        if kind not in ("TUMBLING", "HOPPING"):
            raise Invalid(
                f"WINDOW_TYPE is TUMBLING, HOPPING or SESSION, not {kind}",
                self.place("WINDOW_TYPE"),
            )
        if size is None:
            raise Invalid(
                f"{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause."
                " For example: 'WINDOW_SIZE'='10 SECONDS'", self.place("WINDOW_TYPE"),
            )  # fmt: skip
        return WindowInfo(kind, self._duration(size))

    def _duration(self, text: str) -> int:
        number, _, unit = text.strip().partition(" ")
        milliseconds = _UNITS.get(unit.strip().upper().removesuffix("S"))
        if not number.isdigit() or milliseconds is None or int(number) == 0:
            raise Invalid(
                f"'{text}' is not a duration: write '10 SECONDS'", self.place("WINDOW_SIZE")
            )
        return int(number) * milliseconds


def timestamp_of(properties: Properties, schema: Schema) -> tuple[str | None, str | None]:
    """Returns the column and the pattern of a record's time. Raises if they do not fit."""
    place, place_of_format = properties.place("TIMESTAMP"), properties.place("TIMESTAMP_FORMAT")
    column, pattern = properties.text("TIMESTAMP"), properties.text("TIMESTAMP_FORMAT")
    if column is None:
        if pattern is not None:
            raise Invalid("TIMESTAMP_FORMAT needs TIMESTAMP", place_of_format)
        return None, None
    name = column[1:-1] if column[:1] in '`"' else column.upper()
    found = schema.find(name)
    if found is None:
        near = did_you_mean(name, [one.name for one in schema])
        raise Invalid(
            f"The TIMESTAMP column set in the WITH clause does not exist: {name}{near}", place
        )
    if found.kind == STRING:
        if pattern is None:
            raise Invalid(f"the text column {name} needs a TIMESTAMP_FORMAT to be a time", place)
        try:
            java_time_format(pattern)
        except ValueError as error:
            raise Invalid(f"TIMESTAMP_FORMAT: {error}", place_of_format) from None
    elif found.kind.name not in ("BIGINT", "TIMESTAMP"):
        raise Invalid(
            f"The timestamp column {name} is {found.kind}: BIGINT, TIMESTAMP, or STRING with a"
            " TIMESTAMP_FORMAT is needed", place,
        )  # fmt: skip
    elif pattern is not None:
        raise Invalid("TIMESTAMP_FORMAT belongs to a text column", place_of_format)
    return name, pattern


def formats_of(statement: CreateSource, defaults: Defaults) -> tuple[Format, Format]:
    """Returns the formats of the keys and values of CREATE STREAM or TABLE."""
    place = statement.place
    properties = Properties(statement.properties, place, of_query=False)
    has_keys = any(column.is_key for column in statement.columns or ())
    default = defaults.key_format
    if statement.is_table and not has_keys and default in REGISTERED:
        # The key of a table has to be written down, unless its format is.
        default = "NONE"
    key_format = properties.key_format(default, statement.name)
    if has_keys and key_format.name == "NONE":
        raise Invalid("the format NONE has no key columns", properties.place("KEY_FORMAT"))
    return key_format, properties.value_format(defaults.value_format)


def complete(statement: CreateSource, defaults: Defaults) -> CreateSource:
    """Returns a statement with the columns that it leaves to the registry, which is asked. Blocks.
    Raises `Invalid`."""
    properties = Properties(statement.properties, statement.place, of_query=False)
    topic = properties.topic(statement.name).name
    forms = formats_of(statement, defaults)
    return inferring.with_columns(statement, forms, defaults.formats, topic)


def define(statement: CreateSource, defaults: Defaults) -> tuple[DataSource, TopicWish]:
    """Returns what CREATE STREAM or TABLE defines, and its topic."""
    place = statement.place
    key_format, value_format = formats_of(statement, defaults)
    schema = _schema(statement, statement.columns or ())
    if not schema.key and key_format.is_registered:
        key_format = Format("NONE")
    properties = Properties(statement.properties, place, of_query=False)
    wish = properties.topic(statement.name)
    timestamp, pattern = timestamp_of(properties, schema)
    in_value = [column for column in schema.value if column.header is None]
    value_format = defaults.wrapped(value_format, in_value)
    source = DataSource(
        statement.name, statement.is_table, schema, wish.name, key_format, value_format,
        properties.window(), timestamp, pattern, statement.is_read_only, statement.text,
    )  # fmt: skip
    check_formats(source, properties, defaults.make)
    return source, wish


def check_formats(source: DataSource, properties: Properties, make: MakeCodec) -> None:
    """Raises if the formats cannot hold the columns."""
    place = properties.place("KEY_FORMAT", "FORMAT")
    try:
        make(source.key_format, source.schema.key, True, source.topic)
        form, place = source.value_format, properties.place("WRAP_SINGLE_VALUE")
        if form.is_wrapped is not None:
            _check_wrapping(form, len(source.topic_columns))
        place = properties.place("VALUE_DELIMITER", "VALUE_FORMAT", "FORMAT")
        make(form, source.topic_columns, False, source.topic)
    except UnfitColumns as error:
        raise Invalid(str(error), place) from None


def _check_wrapping(form: Format, count: int) -> None:
    can_be = form.name in UNWRAPPING or form.is_wrapped is form.name.startswith("PROTOBUF")
    if not can_be:
        raise UnfitColumns(
            f"Format '{form.name}' does not support 'WRAP_SINGLE_VALUE' set to"
            f" '{str(form.is_wrapped).lower()}'."
        )
    if count != 1:
        raise UnfitColumns("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")


def _schema(statement: CreateSource, columns: Iterable[ColumnDefinition]) -> Schema:
    keys: list[Column] = []
    values: list[Column] = []
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise Invalid(f"Duplicate column names: {column.name}", column.place)
        if column.name in SYSTEM:
            raise Invalid(
                f"'{column.name}' is a reserved column name. You cannot use it as a column name.",
                column.place,
            )
        seen.add(column.name)
        _check_key(statement, column)
        _check_header(column, [value.header for value in values if value.header is not None])
        target = keys if column.is_key else values
        target.append(Column(column.name, column.kind, column.header))
    if statement.is_table and not keys:
        raise Invalid(
            f"Tables require a PRIMARY KEY. Please define the PRIMARY KEY of {statement.name}.",
            statement.place,
        )
    if not keys and not values:
        raise Invalid("The statement does not define any columns.", statement.place)
    return Schema(tuple(keys), tuple(values))


def _check_header(column: ColumnDefinition, others: list[str]) -> None:
    """Raises for a column of headers that has another type, or that is there already."""
    if column.header is None:
        return
    name = f"HEADER('{column.header}')" if column.header else "HEADERS"
    wanted = BYTES if column.header else _HEADERS
    if column.kind != wanted:
        raise Invalid(
            f"Invalid type for {name} column: expected {wanted}, got {column.kind}", column.place
        )
    if "" in others or (others and not column.header):
        raise Invalid("Schema already contains a HEADERS column.", column.place)
    if column.header in others:
        raise Invalid(f"Schema already contains a {name} column.", column.place)


def _check_key(statement: CreateSource, column: ColumnDefinition) -> None:
    if not column.is_key:
        return
    if statement.is_table and not column.is_primary:
        raise Invalid(
            f"Column {column.name} is a 'KEY' column: please use 'PRIMARY KEY' for tables.",
            column.place,
        )
    if not statement.is_table and column.is_primary:
        raise Invalid(
            f"Column {column.name} is a 'PRIMARY KEY' column: please use 'KEY' for streams.",
            column.place,
        )
    check_key_type(column.name, column.kind, column.place)
