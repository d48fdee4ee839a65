"""Reading records for pages, with a real broker: each is shown once, in order, within limits."""

import asyncio

import cbor2
import pytest

from odradek.client import Consumer, NewTopic, Producer
from odradek.client.admin.admin import Admin
from odradek.console.clusters import READERS
from odradek.console.records import reading
from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import Filter
from odradek.console.records.masks import Masks
from odradek.console.records.reading import Found, Wanted, read_records
from odradek.rest.schema_formats import CallerFormats
from odradek.testing.cluster import Cluster
from odradek.world.clock import SystemClock

# Retention deletes what is old.
START_MS = SystemClock().now_ms() - 60_000
DECODER = Decoder(CallerFormats(None), Masks([], ""), {})


async def pages_of(cluster: Cluster, name: str, wanted: Wanted) -> list[Found]:
    """Returns all pages, as a user who goes from one to the next sees them."""
    found = []
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Consumer(
            {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "none", **READERS}
        ) as reader,
    ):
        topic = (await admin.describe_topics([name]))[name]
        assert not isinstance(topic, Exception)
        while True:
            page = await read_records(admin, reader, topic, wanted, DECODER)
            found.append(page)
            if not page.next_places:
                return found
            wanted = Wanted(
                wanted.partitions, wanted.is_backward, wanted.offset, wanted.timestamp_ms,
                page.next_places, wanted.limit, wanted.text, wanted.filter,
            )  # fmt: skip


@pytest.fixture(scope="module")
def topic(odradek_cluster: Cluster) -> str:
    """A topic with 900 records in three partitions, with times that rise and fall."""

    async def write() -> None:
        async with Admin(bootstrap_servers=odradek_cluster.bootstrap) as admin:
            (await admin.create_topics([NewTopic("numbers", 3)])).raise_for_errors()
        async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
            for number in range(900):
                at_ms = START_MS + number * 10 + (500 if number % 10 == 0 else 0)
                await producer.send(
                    "numbers", f'{{"n": {number}}}'.encode(), partition=number % 3,
                    timestamp_ms=at_ms,
                )  # fmt: skip
            await producer.flush()

    asyncio.run(write())
    return "numbers"


@pytest.mark.parametrize("is_backward", [True, False])
@pytest.mark.parametrize("limit", [40, 500])
async def test_each_record_is_on_one_page(
    odradek_cluster: Cluster, topic: str, is_backward: bool, limit: int
) -> None:
    pages = await pages_of(odradek_cluster, topic, Wanted(is_backward=is_backward, limit=limit))
    seen = [(view.partition, view.offset) for page in pages for view in page.records]
    assert len(seen) == len(set(seen)) == 900
    assert all(len(page.records) == limit for page in pages[:-1])
    for index in range(3):
        offsets = [offset for partition, offset in seen if partition == index]
        assert offsets == sorted(offsets, reverse=is_backward)


@pytest.mark.parametrize("is_backward", [True, False])
async def test_a_search_finds_all_that_match(
    odradek_cluster: Cluster, topic: str, is_backward: bool
) -> None:
    wanted = Wanted(is_backward=is_backward, limit=10, filter=Filter("value.n % 50 == 3"))
    pages = await pages_of(odradek_cluster, topic, wanted)
    numbers = [view.value.data["n"] for page in pages for view in page.records]
    assert sorted(numbers) == list(range(3, 900, 50))
    wanted = Wanted(is_backward=is_backward, text='"N": 77}')
    pages = await pages_of(odradek_cluster, topic, wanted)
    assert [view.value.data["n"] for page in pages for view in page.records] == [77]


async def test_a_search_stops_and_goes_on(
    odradek_cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAX_SCANNED", 200)
    for is_backward in (True, False):
        wanted = Wanted(is_backward=is_backward, filter=Filter("value.n in (1, 450, 898)"))
        pages = await pages_of(odradek_cluster, topic, wanted)
        assert len(pages) > 1
        assert "looked at" in pages[0].stopped
        numbers = [view.value.data["n"] for page in pages for view in page.records]
        assert sorted(numbers) == [1, 450, 898]


async def test_from_a_time_and_an_offset(odradek_cluster: Cluster, topic: str) -> None:
    at_ms = START_MS + 8_950
    wanted = Wanted(is_backward=False, timestamp_ms=at_ms, limit=500)
    (page,) = await pages_of(odradek_cluster, topic, wanted)
    assert {view.value.data["n"] for view in page.records} >= set(range(895, 900))
    wanted = Wanted((2,), is_backward=False, offset=298, limit=500)
    (page,) = await pages_of(odradek_cluster, topic, wanted)
    assert [(view.partition, view.offset) for view in page.records] == [(2, 298), (2, 299)]


def _bomb(levels: int, level: int = 0) -> bytes:
    """Returns CBOR whose lists have each the next list, and once more a reference to it."""
    if level == levels:
        return b"\x01"
    again = b"\xd8\x1d" + cbor2.dumps(level + 1) if level + 1 < levels else b"\x01"
    return b"\xd8\x1c\x82" + _bomb(levels, level + 1) + again


@pytest.mark.parametrize(
    "content",
    [
        _bomb(40),
        # A text that is repeated: a namespace, the text, and references to it.
        b"\xd9\x01\x00\x99\x27\x10\x79\x27\x10" + b"a" * 10_000 + b"\xd8\x19\x00" * 9_999,
        cbor2.dumps(cbor2.CBORTag(5, [2**60, 3])),
        b"\xd8\x1e\x82\x01\x00",
    ],
)
async def test_cbor_that_becomes_more_than_it_was_is_shown_as_bytes(content: bytes) -> None:
    decoder = Decoder(CallerFormats(None), Masks([], ""), {"value": "cbor"})
    found = await decoder.decode("value", content)
    assert found.kind == "bytes"
    assert found.problem.startswith("This is not CBOR")
