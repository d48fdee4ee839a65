"""`odradek dump-log` on files made here: its lines, its JSON, its exit codes."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_header,
    set_log_append_time,
)

NAME = "00000000000000000005"


def batch(base_offset: int, *values: str, codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder(codec)
    for index, value in enumerate(values):
        key = f"k{index}".encode() if index else None
        builder.append(key, value.encode(), [("a", None), ("b", b"1")][:index], 1000 + index)
    return builder.build(base_offset, leader_epoch=2)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Three batches: plain, compressed with the broker's time, and a commit."""
    marker = EndTransactionMarker(ControlType.COMMIT, 9)
    batches = [
        batch(5, "zero", "one"),
        set_log_append_time(batch(7, "two", codec=Codec.ZSTD), 2000),
        encode_end_transaction_marker(
            marker, producer_id=3, producer_epoch=1, timestamp_ms=3000, base_offset=8
        ),
    ]
    (tmp_path / f"{NAME}.log").write_bytes(b"".join(batches))
    second, third = len(batches[0]), len(batches[0] + batches[1])
    index = struct.pack(">iiii", 2, second, 3, third)
    (tmp_path / f"{NAME}.index").write_bytes(index)
    time_index = struct.pack(">qiqi", 2000, 2, 3000, 3)
    (tmp_path / f"{NAME}.timeindex").write_bytes(time_index)
    return tmp_path / NAME


def dump(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], list[str]]:
    code = main(["dump-log", *arguments])
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err.splitlines()


def test_batches_are_printed_as_kafka_prints_them(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{segment}.log"
    code, lines, errors = dump(capsys, "--files", path)
    assert (code, errors) == (0, [])
    header = read_header(Path(path).read_bytes())
    assert lines[:3] == [
        f"Dumping {path}",
        "Log starting offset: 5",
        (
            "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
            "producerEpoch: -1 partitionLeaderEpoch: 2 isTransactional: false isControl: false "
            "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 "
            f"size: {header.size_bytes} magic: 2 compresscodec: none crc: {header.crc} "
            "isvalid: true"
        ),
    ]
    assert len(lines) == 5
    assert f"position: {header.size_bytes} LogAppendTime: 2000 " in lines[3]
    assert " compresscodec: zstd " in lines[3]
    assert " isTransactional: true isControl: true " in lines[4]


def test_records_are_printed_as_kafka_prints_them(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = dump(capsys, "--files", f"{segment}.log", "--print-data-log")
    assert code == 0
    assert [line for line in lines if line.startswith("|")] == [
        (
            "| offset: 5 CreateTime: 1000 keySize: -1 valueSize: 4 sequence: -1 headerKeys: [] "
            "payload: zero"
        ),
        (
            "| offset: 6 CreateTime: 1001 keySize: 2 valueSize: 3 sequence: -1 headerKeys: [a] "
            "key: k1 payload: one"
        ),
        (
            "| offset: 7 LogAppendTime: 2000 keySize: -1 valueSize: 3 sequence: -1 headerKeys: [] "
            "payload: two"
        ),
        (
            "| offset: 8 CreateTime: 3000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
            "endTxnMarker: COMMIT coordinatorEpoch: 9"
        ),
    ]


def test_metadata_of_records_can_be_left_out(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--files", f"{segment}.log", "--print-data-log", "--skip-record-metadata")
    _, lines, _ = dump(capsys, *arguments)
    assert [line for line in lines[2:] if not line.startswith("baseOffset")] == [
        "| payload: zero",
        "| key: k1 payload: one",
        "| payload: two",
        "",
    ]


def test_json_holds_the_same_fields(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{segment}.log"
    _, lines, _ = dump(capsys, "--files", path, "--print-data-log", "--json")
    values = [json.loads(line) for line in lines]
    assert [value["type"] for value in values] == ["file", "start", "batch", "batch", "batch"]
    assert values[2]["deleteHorizonMs"] is None
    assert values[2]["isvalid"] is True
    assert values[2]["records"][1]["headerKeys"] == ["a"]
    assert values[2]["records"][1]["payload"] == "one"
    assert all(value["file"] == path for value in values)


def test_right_indexes_are_printed_and_verified(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = f"{segment}.index,{segment}.timeindex"
    code, lines, errors = dump(capsys, "--files", files)
    assert (code, errors) == (0, [])
    second = read_header(Path(f"{segment}.log").read_bytes()).size_bytes
    assert lines[:2] == [f"Dumping {segment}.index", f"offset: 7 position: {second}"]
    assert lines[3:] == [
        f"Dumping {segment}.timeindex",
        "timestamp: 2000 offset: 7",
        "timestamp: 3000 offset: 8",
    ]
    code, lines, _ = dump(capsys, "--files", files, "--verify-index-only")
    assert (code, len(lines)) == (0, 2)
    code, lines, _ = dump(capsys, "--files", files, "--index-sanity-check")
    assert code == 0
    assert lines[1::2] == [
        f"{segment}.index passed sanity check.",
        f"{segment}.timeindex passed sanity check.",
    ]


def test_wrong_indexes_are_told_at_the_end(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(f"{segment}.index").write_bytes(struct.pack(">iiii", 1, 0, 4, 77))
    Path(f"{segment}.timeindex").write_bytes(struct.pack(">qiqiqi", 1234, 2, 999, 3, 5000, 9))
    files = f"{segment}.index,{segment}.timeindex"
    code, _, errors = dump(capsys, "--files", files, "--verify-index-only")
    assert code == 1
    assert errors == [
        f"Mismatches in :{segment}.index",
        "  Index offset: 9, log offset: -1",
        f"Found timestamp mismatch in :{segment}.timeindex",
        "  Index timestamp: 1234, log timestamp: 2000",
        "  Index timestamp: 999, log timestamp: 3000",
        f"Found out of order timestamp in :{segment}.timeindex",
        "  Index timestamp: 999, Previously indexed timestamp: 1234",
        f"The following indexed offsets are not found in :{segment}.timeindex",
        "Indexed offset: 14, found log offset: -1",
    ]


def test_an_index_that_fails_its_sanity_check(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(f"{segment}.index").write_bytes(struct.pack(">ii", -3, 0))
    Path(f"{segment}.timeindex").write_bytes(bytes(13))
    for suffix, reason in (("index", "before the segment"), ("timeindex", "multiple")):
        code, lines, errors = dump(capsys, "--files", f"{segment}.{suffix}", "--index-sanity-check")
        assert (code, len(lines), len(errors)) == (1, 1, 1)
        assert reason in errors[0]


def test_an_empty_index(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"{segment}.index").write_bytes(b"")
    code, lines, _ = dump(capsys, "--files", f"{segment}.index")
    assert (code, lines[1:]) == (0, [f"{segment}.index is empty."])


def test_damage_is_shown_and_fails(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(f"{segment}.log")
    whole = path.read_bytes()
    damaged = bytearray(whole + whole[:70])
    damaged[61] ^= 0xFF
    path.write_bytes(damaged)
    code, lines, errors = dump(capsys, "--files", str(path), "--deep-iteration")
    assert code == 1
    assert lines[2].endswith("isvalid: false")
    assert lines[-1] == f"Found 70 invalid bytes at the end of {NAME}.log"
    assert len(errors) == 1
    assert "the batch at position 0 is corrupt" in errors[0]


def test_zeros_after_the_last_batch_are_damage(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(f"{segment}.log")
    path.write_bytes(path.read_bytes() + bytes(1000))
    code, lines, errors = dump(capsys, "--files", str(path))
    assert (code, len(lines)) == (1, 5)
    assert errors == [
        f"{path} is corrupt: a batch of 0 bytes at position {path.stat().st_size - 1000}"
    ]


def test_gaps_are_told_but_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(batch(5, "a", "b") + batch(10, "c") + batch(20, "d"))
    code, _, errors = dump(capsys, "--files", str(path), "--deep-iteration")
    assert code == 0
    assert errors == [
        f"Non-consecutive offsets in {path}",
        "  6 is followed by 10",
        "  10 is followed by 20",
    ]


def test_reading_can_stop_early(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = read_header(Path(f"{segment}.log").read_bytes()).size_bytes
    code, lines, _ = dump(capsys, "--files", f"{segment}.log", "--max-bytes", str(size + 5))
    assert (code, len(lines)) == (0, 3)


def test_producer_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = struct.Struct(">qhiqiqiq")
    body = struct.pack(">i", 2)
    body += entry.pack(4, 1, 11, 90, 2, 5000, -1, -1) + entry.pack(5, 0, -1, -1, 0, 6000, 7, 33)
    path = tmp_path / f"{NAME}.snapshot"
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    code, lines, _ = dump(capsys, "--files", str(path))
    assert code == 0
    assert lines[1:] == [
        (
            "producerId: 4 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: "
            "OptionalLong.empty lastTimestamp: 5000 firstSequence: 9 lastSequence: 11 "
            "lastOffset: 90 offsetDelta: 2 timestamp: 5000"
        ),
        (
            "producerId: 5 producerEpoch: 0 coordinatorEpoch: 7 currentTxnFirstOffset: "
            "OptionalLong[33] lastTimestamp: 6000 "
        ),
    ]
    path.write_bytes(struct.pack(">hI", 1, 77) + body)
    code, lines, errors = dump(capsys, "--files", str(path))
    assert (code, len(lines), len(errors)) == (1, 1, 1)


def test_transaction_indexes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{NAME}.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 1, 2, 3, 4))
    _, lines, _ = dump(capsys, "--files", str(path))
    assert lines[1:] == [
        "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    ]


def test_numbers_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = BatchBuilder()
    builder.append(struct.pack(">i", -7), struct.pack(">q", 1 << 40))
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(builder.build(5))
    decoders = ("--key-decoder-class", "IntegerDecoder", "--value-decoder-class")
    _, lines, _ = dump(
        capsys, "--files", str(path), *decoders, "org.apache.kafka.tools.api.LongDecoder"
    )
    assert lines[-1].endswith("key: -7 payload: 1099511627776")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("--print-data-log",), "--files is needed"),
        (("--files", "nowhere/00000000000000000000.log"), "there is no file nowhere/"),
        (("--files", "nowhere/orders.log"), "there is no file nowhere/orders.log"),
        (
            ("--files", "x.log", "--cluster-metadata-decoder"),
            "--cluster-metadata-decoder is not supported yet",
        ),
        (
            ("--files", "x.log", "--offsets-decoder", "--transaction-log-decoder"),
            "--offsets-decoder and --transaction-log-decoder cannot go together",
        ),
        (("--files", "x.log", "--value-decoder-class", "com.example.Mine"), "only Kafka's own"),
        (("--files", "x.log", "--key-decoder-class", "AvroDecoder"), "no decoder AvroDecoder"),
        (("--files", "x.log", "--max-bytes", "few"), "not a whole number"),
    ],
)
def test_mistakes_get_one_clear_line(
    arguments: tuple[str, ...], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = dump(capsys, *arguments)
    assert code != 0
    assert len(errors) == 1
    assert answer in errors[0]


def test_the_index_of_the_active_segment_is_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(b"")
    code, _, errors = dump(capsys, "--files", str(tmp_path / f"{0:020}.index"))
    assert code == 1
    assert "is the active segment, whose indexes are in the broker's memory" in errors[0]


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batch(offset, "value") for offset in range(5000)))
    command = f'"{sys.executable}" -m odradek.cli dump-log --print-data-log --files "{path}"'
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode in {0, 141}


def test_other_files_are_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text("version: 0")
    code, lines, errors = dump(capsys, "--files", str(path))
    assert (code, lines) == (1, [f"Dumping {path}"])
    (error,) = errors
    assert error.startswith(f"Ignoring unknown file {path}: its name ends in none of .log, ")


@pytest.mark.parametrize("ending", ["log", "txnindex", "snapshot"])
def test_files_of_another_kind_are_a_fault(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{0:020}.{ending}"
    path.write_text("[2026-11-16 12:00:00] INFO this is the log of a program, not of a topic\n" * 9)
    assert dump(capsys, "--files", str(path))[0] == 1


def test_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"odradek dump-log: {tmp_path} is a directory; "
    code, _, errors = dump(capsys, "--files", str(tmp_path))
    assert (code, errors) == (1, [f"{said}and has no segments of a log in it"])
    segment = tmp_path / "orders-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.touch()
    _, _, errors = dump(capsys, "--files", str(tmp_path))
    assert errors == [f"{said}name files in it, as in --files {segment}"]


def test_a_name_without_an_offset_and_a_misspelt_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.log").write_bytes(b"")
    code, _, errors = dump(capsys, "--files", str(tmp_path / "orders.log"))
    assert (code, "begins with its first offset" in errors[0]) == (1, True)
    segment = tmp_path / f"{NAME}.log"
    segment.write_bytes(b"")
    code, _, errors = dump(capsys, "--files", str(segment).replace(".log", ".lgo"))
    assert (code, f"; did you mean {segment}?" in errors[0]) == (1, True)
