"""Control records: records that brokers write for their own use and that consumers skip.

A control batch has one record, whose key is its type. In ordinary partitions the only types are the
markers that end a transaction; the others belong to Kafka's KRaft quorum and have names here for
tools that show them.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from odradek.protocol.record_parser import MalformedRecords, Record

_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int


def decode_control_type(record: Record) -> ControlType:
    key = record.key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise MalformedRecords("a control record has a key that is too short")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise MalformedRecords(f"a control record has the version {version}")
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def decode_end_transaction_marker(record: Record) -> EndTransactionMarker:
    control_type, value = decode_control_type(record), record.value
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise MalformedRecords(f"{control_type.name} does not end a transaction")
    if value is None or len(value) < _END_TRANSACTION.size:
        raise MalformedRecords("an end-transaction marker has a value that is too short")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise MalformedRecords(f"an end-transaction marker has the version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)


def end_transaction_key_and_value(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    key = _CONTROL_KEY.pack(0, marker.control_type)
    return key, _END_TRANSACTION.pack(0, marker.coordinator_epoch)
