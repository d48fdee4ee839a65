"""Reads the records of a file: lines, CSV, JSON, or the whole file as one record.

Each record has an offset, which says how far the file has been read: a number of lines for lines
and CSV, a number of values for JSON. Files that end with gz, bz2 or xz are decompressed.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from odradek.connect.connectors.spool_dir.fields import Parser
from odradek.connect.connectors.spool_dir.settings import (
    CsvSettings,
    FieldSettings,
    JsonSettings,
    LineSettings,
)
from odradek.connect.connectors.time_zones import time_zone
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError

_MAX_FIELD_BYTES: Final = 64 << 20
_MAX_DOCUMENT: Final = 64 << 20
_CHUNK: Final = 1 << 16
_OPENERS: Final[dict[str, Callable[..., Any]]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


class Item(NamedTuple):
    """A record of a file. `offset` says how far the file has been read, including this record."""

    offset: int
    value_schema: Schema
    value: Any
    key_schema: Schema | None = None
    key: Any = None


class Format(ABC):
    @abstractmethod
    def items(self, path: Path, after: int) -> Iterator[Item]:
        """Returns the records after an offset. Raises `DataError` if a record cannot be read."""


def opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", _OPENERS.get(path.suffix.lower(), open)(path, "rb"))


class Whole(Format):
    def items(self, path: Path, after: int) -> Iterator[Item]:
        if after < 1:
            with opened(path) as file:
                data = file.read()
            if data:
                yield Item(1, schemas.BYTES, data)


class Lines(Format):
    def __init__(self, settings: LineSettings) -> None:
        self._encoding = settings.charset

    def items(self, path: Path, after: int) -> Iterator[Item]:
        with io.TextIOWrapper(opened(path), self._encoding) as file:
            for number, line in enumerate(file, 1):
                if number > after:
                    yield Item(number, schemas.STRING, line.removesuffix("\n"))


class Columns(NamedTuple):
    """How the fields of a CSV row become those of a record. `names` are the columns of the file. A
    parser has the index of a column, and the name, the function and the schema of its field."""

    names: Sequence[str]
    parsers: Sequence[tuple[int, str, Callable[[str], Any], Schema]]
    value_schema: Schema
    key_schema: Schema | None


class Csv(Format):
    def __init__(self, settings: CsvSettings) -> None:
        self._settings = settings
        self._parser = _parser(settings)
        self._nulls_strings = settings.null_fields != "NEITHER"

    def items(self, path: Path, after: int) -> Iterator[Item]:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD_BYTES))
        with io.TextIOWrapper(opened(path), self._settings.charset, newline="") as file:
            for _ in range(self._settings.skip_lines):
                file.readline()
            rows = self._rows(file)
            first = 0
            if self._settings.has_header:
                header = next(rows, None)
                if header is None:
                    return
                first, names = header
                columns = self._columns([name.strip("\ufeff ") for name in names])
            else:
                columns = self._columns(None)
            for line, row in rows:
                if row and line - first > after:
                    yield self._item(line - first, row, columns)

    def _rows(self, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
        settings = self._settings
        reader = csv.reader(
            file,
            delimiter=chr(settings.separator),
            quotechar=None if settings.ignores_quotes else chr(settings.quote) or None,
            quoting=csv.QUOTE_NONE if settings.ignores_quotes else csv.QUOTE_MINIMAL,
            escapechar=None if settings.is_rfc4180 else chr(settings.escape) or None,
            skipinitialspace=settings.ignores_space,
            strict=settings.is_strict,
        )
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise DataError(f"line {reader.line_num}: {error}") from None

    def _columns(self, header: Sequence[str] | None) -> Columns:
        key_schema, value_schema = self._settings.schemas()
        if value_schema is None:
            assert header is not None
            fields = [Field(name, schemas.OPTIONAL_STRING) for name in header]
            key_schema, value_schema = _generated(self._settings, fields)
        names = header or [field.name for field in value_schema.fields]
        known = {self._folded(field.name): field for field in value_schema.fields}
        parsers = []
        for at, name in enumerate(names):
            field = known.get(self._folded(name))
            if field is not None:
                schema = field.schema
                parsers.append((at, field.name, self._parser.of_text(schema), schema))
        return Columns(names, parsers, value_schema, key_schema)

    def _folded(self, name: str) -> str:
        return name if self._settings.is_case_sensitive else name.lower()

    def _item(self, line: int, row: Sequence[str], columns: Columns) -> Item:
        if len(row) != len(columns.names) and (
            len(row) < len(columns.names) or any(row[len(columns.names) :])
        ):
            raise DataError(f"line {line} has {len(row)} fields; expected are {len(columns.names)}")
        value = dict.fromkeys(field.name for field in columns.value_schema.fields)
        for at, name, parse, schema in columns.parsers:
            text = row[at]
            is_text = schema.type is schemas.Type.STRING
            try:
                if text or (is_text and not self._nulls_strings):
                    value[name] = parse(text)
                elif not schema.is_optional and schema.default is None:
                    raise DataError("it is empty, but not optional")
            except DataError as error:
                raise DataError(f"line {line}, field {name}: {error}") from None
        return _keyed(line, value, columns.value_schema, columns.key_schema)


class Json(Format):
    """JSON objects, one after the other, or in one array. Each is a record with fields."""

    def __init__(self, settings: JsonSettings) -> None:
        self._settings = settings
        self._parser = _parser(settings)

    def items(self, path: Path, after: int) -> Iterator[Item]:
        key_schema, value_schema = self._settings.schemas()
        if value_schema is None:
            key_schema, value_schema = _generated(self._settings, _fields_of(path))
        for number, found in enumerate(documents(path), 1):
            if number > after:
                if not isinstance(found, dict):
                    raise DataError(f"value {number} is not a JSON object")
                try:
                    value = self._parser.of_json(value_schema, found)
                except DataError as error:
                    raise DataError(f"value {number}: {error}") from None
                yield _keyed(number, value, value_schema, key_schema)


class SchemaLessJson(Format):
    """JSON values as in `Json`. Each is a record whose value is its JSON text."""

    def items(self, path: Path, after: int) -> Iterator[Item]:
        for number, found in enumerate(documents(path), 1):
            if number > after:
                text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
                yield Item(number, schemas.STRING, text)


def _parser(settings: FieldSettings) -> Parser:
    zone = time_zone(settings.parser_timestamp_timezone)
    return Parser(settings.parser_timestamp_date_formats, zone)


def _generated(settings: FieldSettings, fields: Sequence[Field]) -> tuple[Schema | None, Schema]:
    keys = [field for field in fields if field.name in settings.schema_generation_key_fields]
    key_schema = schemas.struct(*keys, name=settings.schema_generation_key_name) if keys else None
    return key_schema, schemas.struct(*fields, name=settings.schema_generation_value_name)


def _keyed(
    offset: int, value: dict[str, Any], value_schema: Schema, key_schema: Schema | None
) -> Item:
    if key_schema is None or not key_schema.fields:
        return Item(offset, value_schema, value)
    key = {field.name: value.get(field.name) for field in key_schema.fields}
    return Item(offset, value_schema, value, key_schema, key)


def _fields_of(path: Path) -> list[Field]:
    """Returns a field for each name that occurs in an object of the file. All are optional."""
    found: dict[str, set[type]] = {}
    for document in documents(path):
        if isinstance(document, dict):
            for name, value in document.items():
                found.setdefault(name, set()).update({type(value)} - {type(None)})
    return [Field(name, _schema_for(kinds).optional()) for name, kinds in found.items()]


def _schema_for(kinds: set[type]) -> Schema:
    if kinds == {bool}:
        return schemas.BOOLEAN
    if kinds == {int}:
        return schemas.INT64
    return schemas.FLOAT64 if kinds and kinds <= {int, float} else schemas.STRING


def documents(path: Path) -> Iterator[Any]:
    """Returns the values of a JSON file, one after the other. Raises `DataError`."""
    with io.TextIOWrapper(opened(path), "utf-8-sig") as file:
        yield from _Documents(file)


class _Documents:
    """Parses a file piece by piece. `_text` is the piece that was read and not yet parsed, from
    index `_at` on."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._chunk = _CHUNK

    def __iter__(self) -> Iterator[Any]:
        is_array = self._skip("") == "["
        if is_array:
            self._at += 1
        while True:
            character = self._skip("," if is_array else "")
            if not character or (is_array and character == "]"):
                return
            yield self._document()

    def _skip(self, separators: str) -> str:
        """Goes to the next character that is neither a space nor a separator, and returns it; "" at
        the end of the file."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if not character.isspace() and character not in separators:
                    return character
                self._at += 1
            if not self._more():
                return ""

    def _more(self) -> bool:
        added = self._file.read(self._chunk)
        self._text = self._text[self._at :] + added
        self._at = 0
        return bool(added)

    def _document(self) -> Any:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                # A number at the end of the piece may continue in the next one.
                if end < len(self._text) or isinstance(value, dict | list) or not self._more():
                    break
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > _MAX_DOCUMENT:
                    raise DataError(f"a value is longer than {_MAX_DOCUMENT >> 20} MB") from None
                self._chunk = max(_CHUNK, len(self._text) - self._at)
                if not self._more():
                    raise DataError(f"it is not JSON: {error}") from None
        self._chunk = _CHUNK
        self._at = end
        return value


_DECODER: Final = json.JSONDecoder()
