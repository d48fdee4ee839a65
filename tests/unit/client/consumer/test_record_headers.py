import copy
import pickle
from collections.abc import Callable

import pytest

from odradek.client.consumer.fetched_batches import ConsumerRecord, FetchedBatches
from odradek.client.consumer.record_headers import RecordHeaders
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import Offset, TopicPartition


def consumed(*headers: tuple[str, bytes | None]) -> ConsumerRecord:
    builder = BatchBuilder()
    builder.append(b"k", b"v", headers, 1000)
    (record,) = FetchedBatches(TopicPartition("t", 0), builder.build(), Offset(0)).read(10)
    return record


def test_headers_read_as_a_list() -> None:
    record = consumed(("a", b"1"), ("b", None))
    assert record.headers == [("a", b"1"), ("b", None)]
    assert isinstance(record.headers, list)
    assert [*record.headers, ("c", b"3")][-1] == ("c", b"3")
    assert record.headers + [("c", b"3")] == [*record.headers, ("c", b"3")]  # noqa: RUF005
    assert consumed().headers == []
    assert not consumed().headers


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.append(("x", b"")),
        lambda headers: headers.extend([("x", b"")]),
        lambda headers: headers.insert(0, ("x", b"")),
        lambda headers: headers.clear(),
        lambda headers: headers.sort(),
        lambda headers: headers.__iadd__([("x", b"")]),
        lambda headers: headers.__setitem__(slice(0, 0), [("x", b"")]),
    ],
)
@pytest.mark.parametrize("headers", [(), (("a", b"1"),)], ids=["without", "with"])
def test_headers_cannot_be_changed_whether_there_are_any_or_not(
    change: Callable[[list[tuple[str, bytes | None]]], object],
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    record = consumed(*headers)
    with pytest.raises(TypeError, match=r"write \[\*record.headers, \(name, value\)\]"):
        change(record.headers)
    assert record.headers == list(headers)
    assert consumed().headers == [], "records without headers share a list"


@pytest.mark.parametrize("headers", [(), (("a", b"1"),)], ids=["without", "with"])
def test_a_copy_can_be_changed(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    record = consumed(*headers)
    assert isinstance(record.headers, RecordHeaders)
    for copied in (
        pickle.loads(pickle.dumps(record)).headers,
        copy.deepcopy(record).headers,
        copy.copy(record.headers),
        record.headers.copy(),
    ):
        assert copied == list(headers)
        copied.append(("x", b""))
    assert record.headers == list(headers)
