import json
from dataclasses import replace

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import DamagedArchive, DataFile, Entry, Gap, State, numbers_in
from tests.unit.spark.archive.files import data_file


def _entry(number: int, *added: DataFile, removed: tuple[str, ...] = ()) -> Entry:
    return Entry(
        number,
        "run",
        "append",
        1000,
        tuple((one, f"staged/{one.name}") for one in added),
        removed,
        ((TopicPartition("t", 0), number * 10),),
        (Gap("t", 0, 1, 2),) if number == 1 else (),
        (("t", "0a" * 16),),
    )


def test_entries_and_states_survive_the_way_through_json() -> None:
    entry = _entry(1, data_file(0, 10, 19))
    assert Entry.from_json(entry.to_json(), "x") == entry
    state = State()
    state.apply(_entry(0, data_file(0, 0, 9)))
    state.apply(entry)
    assert State.from_json(state.to_json(), "x") == state
    assert state.offsets == {TopicPartition("t", 0): 10}
    assert [one.first_offset for one in state.files_of("t")] == [0, 10]
    assert state.gaps == [Gap("t", 0, 1, 2)]
    assert state.topic_ids == {"t": "0a" * 16}


def test_entries_from_before_topic_ids_are_read() -> None:
    written = json.loads(_entry(0, data_file(0, 0, 9)).to_json())
    del written["topic_ids"]
    state = State()
    state.apply(Entry.from_json(json.dumps(written).encode(), "x"))
    assert (state.topic_ids, len(state.files)) == ({}, 1)


def test_the_archive_is_named_by_its_first_run() -> None:
    state = State()
    state.apply(replace(_entry(0), run="first"))
    state.apply(replace(_entry(1), run="second"))
    assert (state.archive_id, state.run) == ("first", "second")


def test_a_log_that_does_not_fit_together_is_damaged() -> None:
    state = State()
    with pytest.raises(DamagedArchive, match="entry 0 of the archive's log is missing: 1"):
        state.apply(_entry(1))
    with pytest.raises(DamagedArchive, match="removes nowhere"):
        state.apply(_entry(0, removed=("nowhere",)))
    with pytest.raises(DamagedArchive, match="another version"):
        Entry.from_json(json.dumps({"format": 2}).encode(), "x")
    with pytest.raises(DamagedArchive, match="here is not JSON"):
        State.from_json(b"{", "here")
    with pytest.raises(DamagedArchive, match="here is damaged"):
        Entry.from_json(b'{"format": 1}', "here")


def test_a_merge_replaces_files_under_other_names() -> None:
    first, second = data_file(0, 0, 4).with_number(0), data_file(0, 5, 9).with_number(0)
    state = State()
    state.apply(_entry(0, first, second))
    merged = data_file(0, 0, 9).with_number(1)
    assert first.with_number(1).path != first.path
    state.apply(_entry(1, merged, removed=(first.path, second.path)))
    assert list(state.files) == [merged.path]
    assert merged.path == (
        "topic=t/date=2026-11-15/hour=07/"
        "records-t-0-00000000000000000000-00000000000000000009-1.parquet"
    )


def test_numbers_are_those_of_whole_files() -> None:
    names = ["00000000000000000002.json", "00000000000000000001.json", ".x.json.crc", "3.state"]
    assert numbers_in(names, ".json") == [1, 2]
    assert numbers_in(names, ".state") == [3]
