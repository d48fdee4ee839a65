"""Prints the content of each file for `dump-log`, as Kafka's lines or as JSON.

Kafka's lines are fields, `name: value` with a space between. So each line is a dictionary here, in
Kafka's order, which is written as text or as JSON. As in Kafka's tool, faults of indexes and gaps
are collected and printed on standard error at the end.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.cli.dump_log import segment_files
from odradek.cli.dump_log.segment_files import CorruptFile, LogFile, StoredBatch
from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchHeader,
    ControlType,
    MalformedRecords,
    Record,
    crc_is_valid,
    decode_control_type,
    decode_end_transaction_marker,
    decode_records,
    find_max_timestamp,
)
from odradek.tools.terminal import print_json
from odradek.world.disk import Disk

Decoder = Callable[[bytes], str]
# Decodes key and value together; a value of None is left out.
RecordDecoder = Callable[[Record], tuple[str, str | None]]

_MAX_SEQUENCE = (1 << 31) - 1


class OptionalLong(NamedTuple):
    """A number that may be missing, printed as Java prints its class OptionalLong."""

    value: int | None


Value = int | str | bool | list[str] | OptionalLong
Fields = dict[str, Value]


@dataclass(frozen=True, slots=True)
class DumpOptions:
    prints_data: bool
    is_deep: bool
    index_sanity_only: bool
    verify_index_only: bool
    skips_metadata: bool
    max_message_size: int
    max_bytes: int | None
    decode_key: Decoder
    decode_value: Decoder
    as_json: bool
    show_record: RecordDecoder | None = None


@dataclass(slots=True)
class Faults:
    """The faults of each file. They are printed at the end and decide the exit code."""

    index_offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    missing_offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    files: int = 0

    def is_serious(self) -> bool:
        """Whether the exit code must be 1. Gaps do not count, because compaction leaves them."""
        return bool(
            self.index_offsets
            or self.timestamps
            or self.time_order
            or self.missing_offsets
            or self.files
        )

    def lines(self) -> Iterator[str]:
        # Kafka prints these, and only these, in reverse order.
        offsets = {path: pairs[::-1] for path, pairs in self.index_offsets.items()}
        pair = "  Index offset: {}, log offset: {}"
        yield from _listed("Mismatches in :", offsets, pair)
        pair = "  Index timestamp: {}, log timestamp: {}"
        yield from _listed("Found timestamp mismatch in :", self.timestamps, pair)
        pair = "  Index timestamp: {}, Previously indexed timestamp: {}"
        yield from _listed("Found out of order timestamp in :", self.time_order, pair)
        pair = "Indexed offset: {}, found log offset: {}"
        heading = "The following indexed offsets are not found in :"
        yield from _listed(heading, self.missing_offsets, pair)
        pair = "  {} is followed by {}"
        yield from _listed("Non-consecutive offsets in ", self.gaps, pair)


def _listed(heading: str, found: Mapping[str, list[tuple[int, int]]], pair: str) -> Iterator[str]:
    for path, pairs in found.items():
        yield heading + path
        for one, other in pairs:
            yield pair.format(one, other)


class SegmentDump:
    """Prints files one after the other and collects their faults."""

    def __init__(
        self, disk: Disk, options: DumpOptions, absolute: Callable[[str], str] = str
    ) -> None:
        self._disk = disk
        self._options = options
        self._absolute = absolute
        self.faults = Faults()

    def dump(self, path: str) -> None:
        dumps: dict[str, Callable[[str], None]] = {
            "log": self._dump_log,
            "index": self._dump_offset_index,
            "timeindex": self._dump_time_index,
            "snapshot": self._dump_producer_snapshot,
            "txnindex": self._dump_transaction_index,
        }
        self._say(path, "file", f"Dumping {path}")
        dump = dumps.get(path.rpartition("/")[2].rpartition(".")[2])
        if dump is None:
            known = ", ".join(f".{kind}" for kind in dumps)
            self.faults.files += 1
            self._complain(f"Ignoring unknown file {path}: its name ends in none of {known}")
            return
        try:
            dump(path)
        except CorruptFile as error:
            self.faults.files += 1
            self._complain(f"{path} is corrupt: {error}")

    # .log

    def _dump_log(self, path: str) -> None:
        options = self._options
        start = segment_files.base_offset_of(path)
        log = LogFile(self._disk, path, options.max_bytes)
        self._say(path, "start", f"Log starting offset: {start}", startOffset=start)
        try:
            valid_bytes, last_offset = 0, -1
            for batch in log.batches():
                valid_bytes = batch.position + batch.header.size_bytes
                records = self._print_batch(path, batch)
                last_offset = self._note_gaps(path, last_offset, records)
            trailing = log.size_bytes - valid_bytes
            if trailing and options.max_bytes is None:
                name = path.rpartition("/")[2]
                text = f"Found {trailing} invalid bytes at the end of {name}"
                self._say(path, "invalidBytes", text, invalidBytes=trailing)
                self.faults.files += 1
        finally:
            log.close()

    def _print_batch(self, path: str, batch: StoredBatch) -> list[Record]:
        is_valid = crc_is_valid(batch.data, 0, batch.header)
        if not is_valid:
            self.faults.files += 1
        fields = batch_fields(batch, is_valid)
        if not self._options.is_deep:
            self._print(path, "batch", fields)
            return []
        try:
            records = decode_records(batch.data)
            lines = [self._record_fields(batch.header, record) for record in records]
        except MalformedRecords as error:
            self._print(path, "batch", fields)
            self.faults.files += 1
            self._complain(f"{path}: the batch at position {batch.position} is corrupt: {error}")
            return []
        if self._options.as_json:
            record_values = [_json_fields(line) for line in lines]
            print_json({"type": "batch", "file": path} | _json_fields(fields, record_values))
        else:
            texts = [_text_line(fields)]
            texts += ["| " + _text_line(line) if line else "" for line in lines]
            print("\n".join(texts))
        return records

    def _record_fields(self, header: BatchHeader, record: Record) -> Fields:
        fields: Fields = {}
        options = self._options
        if not options.skips_metadata:
            fields |= record_fields(header, record)
            if header.is_control:
                fields |= control_fields(record)
        if options.prints_data and not header.is_control:
            if options.show_record is not None:
                fields["key"], payload = options.show_record(record)
                return fields if payload is None else fields | {"payload": payload}
            if record.key is not None:
                fields["key"] = options.decode_key(record.key)
            if record.value is not None:
                fields["payload"] = options.decode_value(record.value)
        return fields

    def _note_gaps(self, path: str, last_offset: int, records: list[Record]) -> int:
        for record in records:
            if last_offset not in (-1, record.offset - 1):
                gap = (last_offset, record.offset)
                self.faults.gaps.setdefault(self._absolute(path), []).append(gap)
            last_offset = record.offset
        return last_offset

    # .index and .timeindex

    def _dump_offset_index(self, path: str) -> None:
        entries = segment_files.read_offset_index(self._disk, path)
        log = LogFile(self._disk, segment_files.sibling(path, ".log"))
        try:
            if not entries:
                self._say(path, "empty", f"{path} is empty.")
                return
            if self._options.index_sanity_only:
                segment_files.check_offset_index(self._disk, path, entries)
                self._say(path, "sanityCheck", f"{path} passed sanity check.", passed=True)
                return
            base_offset = segment_files.base_offset_of(path)
            for number, entry in enumerate(entries):
                # A broker that crashed leaves the rest of the preallocated file filled with zeros.
                if number and entry.offset == base_offset:
                    return
                self._check_offset_entry(path, log, entry)
                if not self._options.verify_index_only:
                    fields: Fields = {"offset": entry.offset, "position": entry.position}
                    self._print(path, "offsetIndexEntry", fields)
        finally:
            log.close()

    def _check_offset_entry(
        self, path: str, log: LogFile, entry: segment_files.OffsetEntry
    ) -> None:
        try:
            header = log.header_at(entry.position)
        except CorruptFile:
            header = None
        if header is not None and header.size_bytes > self._options.max_message_size:
            header = None
        last_offset = -1 if header is None else header.last_offset
        if last_offset != entry.offset:
            mismatches = self.faults.index_offsets.setdefault(self._absolute(path), [])
            mismatches.append((entry.offset, last_offset))

    def _dump_time_index(self, path: str) -> None:
        entries = segment_files.read_time_index(self._disk, path)
        if self._options.index_sanity_only:
            segment_files.check_time_index(self._disk, path, entries)
            self._say(path, "sanityCheck", f"{path} passed sanity check.", passed=True)
            return
        log = LogFile(self._disk, segment_files.sibling(path, ".log"))
        try:
            index = segment_files.read_offset_index(
                self._disk, segment_files.sibling(path, ".index")
            )
            base_offset, previous = segment_files.base_offset_of(path), -1
            for number, entry in enumerate(entries):
                if number and entry.offset == base_offset:
                    return
                positions = [known.position for known in index if known.offset <= entry.offset]
                self._check_time_entry(path, log, entry, max(positions, default=0), previous)
                if not self._options.verify_index_only:
                    fields: Fields = {"timestamp": entry.timestamp, "offset": entry.offset}
                    self._print(path, "timeIndexEntry", fields)
                previous = entry.timestamp
        finally:
            log.close()

    def _check_time_entry(
        self,
        path: str,
        log: LogFile,
        entry: segment_files.TimeEntry,
        position: int,
        previous_timestamp: int,
    ) -> None:
        faults, path = self.faults, self._absolute(path)
        batches = log.batches(position)
        batch = next((each for each in batches if each.header.last_offset >= entry.offset), None)
        if batch is None or batch.header.last_offset != entry.offset:
            offset = -1 if batch is None else batch.header.last_offset
            faults.missing_offsets.setdefault(path, []).append((entry.offset, offset))
            return
        latest = (find_max_timestamp(batch.data) or (-1, -1))[0]
        if latest != entry.timestamp:
            faults.timestamps.setdefault(path, []).append((entry.timestamp, latest))
        if previous_timestamp >= entry.timestamp:
            faults.time_order.setdefault(path, []).append((entry.timestamp, previous_timestamp))

    # .snapshot and .txnindex

    def _dump_producer_snapshot(self, path: str) -> None:
        for entry in segment_files.read_producer_snapshot(self._disk, path):
            began = entry.transaction_first_offset
            fields: Fields = {
                "producerId": entry.producer_id,
                "producerEpoch": entry.epoch,
                "coordinatorEpoch": entry.coordinator_epoch,
                "currentTxnFirstOffset": OptionalLong(None if began < 0 else began),
                "lastTimestamp": entry.timestamp,
            }
            if entry.last_offset >= 0:
                fields |= {
                    "firstSequence": (entry.last_sequence - entry.offset_delta) & _MAX_SEQUENCE,
                    "lastSequence": entry.last_sequence,
                    "lastOffset": entry.last_offset,
                    "offsetDelta": entry.offset_delta,
                    "timestamp": entry.timestamp,
                }
            # Kafka prints a space in place of a missing batch.
            self._print(path, "producer", fields, end="\n" if entry.last_offset >= 0 else " \n")

    def _dump_transaction_index(self, path: str) -> None:
        for entry in segment_files.read_transaction_index(self._disk, path):
            fields: Fields = {
                "version": entry.version,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
            self._print(path, "abortedTransaction", fields)

    # Output

    def _print(self, path: str, kind: str, fields: Fields, end: str = "\n") -> None:
        if self._options.as_json:
            print_json({"type": kind, "file": path} | _json_fields(fields))
        else:
            print(_text_line(fields), end=end)

    def _say(self, path: str, kind: str, text: str, **values: int) -> None:
        """Prints a line that has no fields in Kafka's output."""
        if self._options.as_json:
            print_json({"type": kind, "file": path} | values)
        else:
            print(text)

    def _complain(self, text: str) -> None:
        sys.stdout.flush()
        print(text, file=sys.stderr)


def batch_fields(batch: StoredBatch, is_valid: bool) -> Fields:
    header = batch.header
    number = header.attributes & 7
    codec = Codec(number).name.lower() if number <= Codec.ZSTD else f"unknown({number})"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": OptionalLong(header.delete_horizon_ms),
        "position": batch.position,
        _timestamp_name(header): header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": is_valid,
    }


def record_fields(header: BatchHeader, record: Record) -> Fields:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & _MAX_SEQUENCE
    return {
        "offset": record.offset,
        _timestamp_name(header): record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [name for name, _ in record.headers],
    }


def control_fields(record: Record) -> Fields:
    control_type = decode_control_type(record)
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        marker = decode_end_transaction_marker(record)
        return {
            "endTxnMarker": marker.control_type.name,
            "coordinatorEpoch": marker.coordinator_epoch,
        }
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return {"controlType": f"{control_type.name}({number})"}


def _timestamp_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _text_line(fields: Fields) -> str:
    return " ".join([f"{name}: {_text(value)}" for name, value in fields.items()])


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, OptionalLong):
        return "OptionalLong.empty" if value.value is None else f"OptionalLong[{value.value}]"
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)


def _json_fields(
    fields: Fields, records: "list[dict[str, object]] | None" = None
) -> "dict[str, object]":
    values: dict[str, object] = {
        name: value.value if isinstance(value, OptionalLong) else value
        for name, value in fields.items()
    }
    if records is not None:
        values["records"] = records
    return values
