"""Shows the records of `__consumer_offsets` and `__transaction_state` as JSON, for `dump-log`.

Like Kafka's tool, it names fields as in Kafka's message definitions. A field that the version does
not have is left out, and so is a tagged field with its default value.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.groups import records as groups
from odradek.groups.consumer import records as consumer_groups
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.layout import Field
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
)
from odradek.protocol.records import Record
from odradek.protocol.schema import Message, Struct
from odradek.transactions.records import TransactionLogKey, TransactionLogValue

Shown = tuple[str, str | None]
"""A key and a value; None if there is nothing to show for the value."""

_VERSION_BYTES: Final = 2
# Tags from here on are Odradek's own; Kafka skips them.
_FIRST_OWN_TAG: Final = 10_000


class _Kind(NamedTuple):
    """How a kind of record is read. `part` is the name of the key's second field."""

    key: type[Message]
    value: type[Message]
    part: str = ""


_GROUP_KINDS: Final = {
    groups.OLD_OFFSET: _Kind(groups.OffsetCommitKey, groups.OffsetCommitValue),
    groups.OFFSET: _Kind(groups.OffsetCommitKey, groups.OffsetCommitValue),
    groups.CLASSIC_GROUP: _Kind(groups.GroupMetadataKey, groups.GroupMetadataValue),
    consumer_groups.GROUP: _Kind(
        consumer_groups.GroupKey, consumer_groups.ConsumerGroupMetadataValue
    ),
    consumer_groups.MEMBER: _Kind(
        consumer_groups.PartKey, consumer_groups.ConsumerGroupMemberMetadataValue, "memberId"
    ),
    consumer_groups.TARGET_EPOCH: _Kind(
        consumer_groups.GroupKey, consumer_groups.ConsumerGroupTargetAssignmentMetadataValue
    ),
    consumer_groups.TARGET: _Kind(
        consumer_groups.PartKey,
        consumer_groups.ConsumerGroupTargetAssignmentMemberValue,
        "memberId",
    ),
    consumer_groups.CURRENT: _Kind(
        consumer_groups.PartKey,
        consumer_groups.ConsumerGroupCurrentMemberAssignmentValue,
        "memberId",
    ),
    consumer_groups.PATTERN: _Kind(
        consumer_groups.PartKey,
        consumer_groups.ConsumerGroupRegularExpressionValue,
        "regularExpression",
    ),
}
_TRANSACTION_KINDS: Final = {0: _Kind(TransactionLogKey, TransactionLogValue)}


def show_group_record(record: Record) -> Shown:
    return _show(record, _GROUP_KINDS)


def show_transaction_record(record: Record) -> Shown:
    return _show(record, _TRANSACTION_KINDS)


def _show(record: Record, kinds: dict[int, _Kind]) -> Shown:
    try:
        number = _version(record.key)
        kind = kinds.get(number)
        if kind is None or record.key is None:
            return f"Unknown record type {number} at offset {record.offset}, skipping.", None
        version = min(number, kind.key.versions.last)
        key = json_of(kind.key.decode(record.key, version, _VERSION_BYTES), version)
        if kind.part:
            key[kind.part] = key.pop("part")
        shown_key = _text({"type": str(number), "data": key})
        if record.value is None:
            return shown_key, "<DELETE>"
        version = _version(record.value)
        value = decode_versioned(kind.value, record.value)
        data = json_of(value, min(version, kind.value.versions.last))
        if isinstance(value, groups.GroupMetadataValue):
            _open_members(value, data)
        return shown_key, _text({"version": str(version), "data": data})
    except MalformedMessage as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _version(content: bytes | None) -> int:
    if content is None or len(content) < _VERSION_BYTES:
        raise MalformedMessage("it is too short to say what it is")
    return int.from_bytes(content[:_VERSION_BYTES], "big", signed=True)


def _open_members(group: groups.GroupMetadataValue, data: dict[str, object]) -> None:
    """Decodes the subscription that members sent in JoinGroup and the assignment of SyncGroup."""
    members = data["members"]
    if group.protocol_type != "consumer" or not isinstance(members, list):
        return
    for member, shown in zip(group.members, members, strict=True):
        for name, content, message in (
            ("subscription", member.subscription, ConsumerProtocolSubscription),
            ("assignment", member.assignment, ConsumerProtocolAssignment),
        ):
            try:
                version = min(_version(content), message.versions.last)
                shown[name] = json_of(decode_versioned(message, content), version)
            except MalformedMessage:
                continue  # the bytes stay as they are


def _text(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_of(struct: Struct, version: int) -> dict[str, object]:
    """Converts a struct to JSON with the field names of Kafka's definitions."""
    shown: dict[str, object] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        value: object = getattr(struct, field.name)
        if version in field.tagged and _is_unsaid(field, value):
            continue
        shown[_camel_case(field.name)] = _json_value(field, value, version)
    return shown


def _is_unsaid(field: Field, value: object) -> bool:
    """Returns whether Kafka leaves a tagged field out because it has its default value."""
    if field.kind == "struct" and value is None:
        return False
    return value == field.default or (field.tag or 0) >= _FIRST_OWN_TAG


def _json_value(field: Field, value: object, version: int) -> object:
    if value is None:
        return None
    if isinstance(value, Struct):
        return json_of(value, version)
    if isinstance(value, list):
        show = _SHOWN.get(field.element if isinstance(field.element, str) else "")
        return [
            json_of(element, version)
            if isinstance(element, Struct)
            else element
            if show is None
            else show(element)
            for element in value
        ]
    show = _SHOWN.get(field.kind)
    return value if show is None or not isinstance(value, bytes) else show(value)


_SHOWN: Final[dict[str, Callable[[bytes], str]]] = {
    "uuid": lambda value: urlsafe_b64encode(value).decode().rstrip("="),
    "bytes": lambda value: b64encode(value).decode(),
}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
