"""The records of the topic `_schemas`, in the format of Confluent's registry.

Key and value are JSON. The key says what kind of record it is (`keytype`):

    SCHEMA           a version of a subject; no value: the version is gone for good
    DELETE_SUBJECT   all versions of a subject up to one are deleted, but still there
    CLEAR_SUBJECT    deleted versions of a subject, or of a context, are gone for good
    CONFIG, MODE     of a subject, of a context (`:.ctx:`), or without a subject of the registry
    CONTEXT          that a context exists
    NOOP             nothing; the primary writes one to learn where the topic ends. Ours has a
                     value, which other registries do not look at: the highest id of each context
                     (`maxIds`), so that the id of a schema that is gone is not given again

Members that are unknown here are kept out of the state, not refused: a newer registry may write
them. The order of the members in a key matters, because compaction compares the bytes of keys. It
is the order of Confluent's registry.
"""

from typing import Any, Final, NamedTuple

import msgspec

from odradek.registry.errors import Refused
from odradek.registry.names import qualified
from odradek.registry.rules import check_metadata, has_known_shape
from odradek.statemachine.machine import LogRecord

Json = dict[str, Any]

NOOP_KEY: Final = b'{"keytype":"NOOP","magic":0}'


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version that a schema imports under a name."""

    name: str
    subject: str
    version: int


class BadRecord(ValueError):
    """A record that is not one of a registry; the message says what is wrong with it."""


class Version(msgspec.Struct, frozen=True, gc=False):
    """A version of a subject, as a record of kind SCHEMA has it."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False
    ts: int | None = None
    """When it was written, by the broker's clock."""


class Entry(NamedTuple):
    """A record that was read. `value` is the JSON of the value, or None."""

    kind: str
    subject: str | None
    version: int
    context: str | None
    value: Json | None


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def schema_key(subject: str, version: int) -> bytes:
    return encode({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def config_key(subject: str | None) -> bytes:
    return _subject_key("CONFIG", subject)


def mode_key(subject: str | None) -> bytes:
    return _subject_key("MODE", subject)


def delete_subject_key(subject: str) -> bytes:
    return _subject_key("DELETE_SUBJECT", subject)


def clear_subject_key(subject: str | None) -> bytes:
    return _subject_key("CLEAR_SUBJECT", subject)


def context_key(context: str) -> bytes:
    return encode({"keytype": "CONTEXT", "tenant": "default", "context": context, "magic": 0})


def _subject_key(kind: str, subject: str | None) -> bytes:
    if subject is None:
        return encode({"keytype": kind, "magic": 0})
    return encode({"keytype": kind, "subject": subject, "magic": 0})


def max_ids(highest: dict[str, int]) -> LogRecord:
    """Returns the record that keeps the highest id of each context."""
    return LogRecord(NOOP_KEY, encode({"maxIds": highest}))


def written(version: Version) -> LogRecord:
    """Returns the record of a version."""
    value: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    if version.schema_type != "AVRO":
        value["schemaType"] = version.schema_type
    if version.references:
        value["references"] = list(version.references)
    if version.metadata is not None:
        value["metadata"] = version.metadata
    if version.rule_set is not None:
        value["ruleSet"] = version.rule_set
    value["schema"] = version.schema
    value["deleted"] = version.deleted
    return LogRecord(schema_key(version.subject, version.version), encode(value))


def parse(key: bytes | None, value: bytes | None) -> Entry | None:
    """Returns the entry of a record, or None for one that says nothing. Raises `BadRecord`."""
    if key is None:
        raise BadRecord("it has no key")
    named = _object(key, "key")
    kind = named.get("keytype")
    if not isinstance(kind, str):
        raise BadRecord("its key has no keytype")
    if kind == "NOOP" and value is None:
        return None
    content = _object(value, "value") if value is not None else None
    subject, number, context = named.get("subject"), named.get("version", 0), named.get("context")
    if not isinstance(subject, str | None) or not isinstance(number, int):
        raise BadRecord("its key has a subject or version of a wrong type")
    if kind == "SCHEMA" and (not subject or number < 1):
        raise BadRecord("its key has no subject or version")
    if kind == "CONTEXT" and not isinstance(context, str):
        raise BadRecord("its key has no context")
    return Entry(kind, subject, number, context if kind == "CONTEXT" else None, content)


def id_in(key: bytes | None, value: bytes | None) -> tuple[str, int] | None:
    """Returns the context and id of a record that gives a schema an id."""
    try:
        entry = parse(key, value)
    except BadRecord:
        return None
    if entry is None or entry.kind != "SCHEMA" or entry.value is None:
        return None
    schema_id = entry.value.get("id")
    assert entry.subject is not None
    return (qualified(entry.subject).context, schema_id) if isinstance(schema_id, int) else None


def version_of(entry: Entry, ts: int | None) -> Version:
    """Returns the version that a record of kind SCHEMA describes. Raises `BadRecord`."""
    value = entry.value
    assert value is not None
    assert entry.subject is not None
    number, schema = value.get("id"), value.get("schema")
    if not isinstance(number, int) or not isinstance(schema, str):
        raise BadRecord("its value has no id or schema")
    try:
        references = msgspec.convert(value.get("references") or (), tuple[Reference, ...])
    except msgspec.ValidationError as error:
        raise BadRecord(f"its references cannot be read: {error}") from None
    metadata, rule_set = _optional_object(value, "metadata"), _optional_object(value, "ruleSet")
    try:
        check_metadata(metadata)
    except Refused as error:
        raise BadRecord(error.message) from None
    if rule_set is not None and not has_known_shape(rule_set):
        raise BadRecord("its ruleSet has a shape that is unknown")
    if not 0 <= number < 1 << 31 or any(
        abs(reference.version) >= 1 << 31 for reference in references
    ):
        raise BadRecord("its id or a version in its references is out of range")
    return Version(
        entry.subject,
        entry.version,
        number,
        schema,
        str(value.get("schemaType") or "AVRO"),
        references,
        metadata,
        rule_set,
        value.get("deleted") is True,
        ts,
    )


def _optional_object(value: Json, name: str) -> Json | None:
    found = value.get(name)
    if found is not None and not isinstance(found, dict):
        raise BadRecord(f"its {name} is not an object")
    return found


def _object(data: bytes, what: str) -> Json:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRecord(f"its {what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRecord(f"its {what} is not a JSON object")
    return found
