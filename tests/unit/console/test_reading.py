"""Reading records for pages, with a real broker: each is shown once, in order, within limits."""

import asyncio
import json
import time
from dataclasses import replace

import cbor2
import pytest

from odradek.client import Consumer, NewTopic, Producer
from odradek.client.admin.admin import Admin
from odradek.console.clusters import READERS
from odradek.console.records import decoding, reading
from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import Filter
from odradek.console.records.masks import HIDDEN, Mask, Masks
from odradek.console.records.reading import Found, RecordView, Wanted, read_records
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
            wanted = replace(wanted, places=page.next_places)


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


async def test_large_records_are_shown_although_a_page_of_them_is_too_much(
    odradek_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAX_BYTES", 1_000_000)
    async with Admin(bootstrap_servers=odradek_cluster.bootstrap) as admin:
        (await admin.create_topics([NewTopic("large", 2)])).raise_for_errors()
    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        for number in range(60):
            await producer.send("large", b"x" * 25_000, partition=number % 2)
        await producer.flush()
    for is_backward in (True, False):
        wanted = Wanted(is_backward=is_backward, limit=50, is_list=True)
        pages = await pages_of(odradek_cluster, "large", wanted)
        seen = [(view.partition, view.offset) for page in pages for view in page.records]
        assert len(seen) == len(set(seen)) == 60
        assert all(page.records for page in pages)
        assert all(len(view.value.text) == 400 for page in pages for view in page.records)


async def test_what_is_found_is_bounded_by_the_memory_that_it_takes() -> None:
    lists = await DECODER.decode("value", b"[" + b",".join([b"[]"] * 100_000) + b"]")
    null = await DECODER.decode("key", None)
    view = RecordView("t", 0, 0, 0, null, lists, [])
    whole, short = reading._Budget(5), reading._Budget(5)
    for _ in range(20):
        whole.keep(view)
        short.keep(view.short())
    assert whole.stopped().startswith("what was found takes")
    assert short.stopped() == ""


async def test_others_are_answered_while_records_are_looked_at(
    odradek_cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_: object) -> bool:
        end_s = time.perf_counter() + 0.002
        while time.perf_counter() < end_s:
            pass
        return False

    wanted = Wanted(filter=Filter("value.n < 0"))
    monkeypatch.setattr(wanted.filter, "matches", slow)
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        while True:
            before_s = time.perf_counter()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.perf_counter() - before_s)

    watching = asyncio.create_task(watch())
    await pages_of(odradek_cluster, topic, wanted)
    watching.cancel()
    # A poll gives up to 500 records: a second, if nobody else had a turn between them.
    assert longest_s < 0.3


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
        # More follows, so it is something else that begins like CBOR.
        b"\x81\x01more",
    ],
)
async def test_cbor_that_becomes_more_than_it_was_is_shown_as_bytes(content: bytes) -> None:
    decoder = Decoder(CallerFormats(None), Masks([], ""), {"value": "cbor"})
    found = await decoder.decode("value", content)
    assert found.kind == "bytes"
    assert found.problem.startswith("This is not CBOR")


def _colliding(count: int) -> bytes:
    """Returns a map whose keys, numbers of 16 bytes, all have the same hash in Python."""
    prime = 2**61 - 1
    keys = (((2**62 + index) * prime).to_bytes(16) for index in range(count))
    return b"\xb9" + count.to_bytes(2) + b"".join(b"\xc2\x50" + key + b"\x01" for key in keys)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        # A regular expression, a mail and a fraction are shown as they are.
        (b"\xd8\x23" + cbor2.dumps("|".join(f"a{index}" for index in range(150_000))), "CBOR"),
        (b"\xd8\x24" + cbor2.dumps("A: b\n" * 150_000), "CBOR"),
        (b"\xd8\x1e\x82\x02\x03", "CBOR"),
        (b"\xd8\x1e\x82" + 2 * (b"\xc2\x5a\x00\x06\x00\x00" + b"\xfe" * 0x60000), "bytes"),
        (_colliding(40_000), "CBOR"),
    ],
    ids=["pattern", "mail", "fraction", "large fraction", "colliding keys"],
)
async def test_cbor_that_would_be_much_work_is_little(content: bytes, kind: str) -> None:
    decoder = Decoder(CallerFormats(None), Masks([], ""), {"value": "cbor"})
    began_s = time.process_time()
    assert (await decoder.decode("value", content)).kind == kind
    assert time.process_time() - began_s < 2


@pytest.mark.parametrize("is_masked", [False, True])
async def test_lists_below_many_others_are_not_indented(is_masked: bool) -> None:
    content = b"[" * 140 + b",".join([b"1"] * 50_000) + b"]" * 140
    rules = [Mask.parse("t/value.x")] if is_masked else []
    decoder = Decoder(CallerFormats(None), Masks(rules, "t"), {})
    found = await decoder.decode("value", content)
    assert len(found.text) < 3 * len(content)
    small = await decoder.decode("value", b'{"a": {"b": [1, 2]}}')
    assert small.text == json.dumps({"a": {"b": [1, 2]}}, indent=2)


@pytest.mark.parametrize("how", ["auto", "json", "text", "msgpack", "cbor"])
async def test_a_value_of_very_many_bytes_is_not_decoded(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_MAX_DECODED", 1000)
    decoder = Decoder(CallerFormats(None), Masks([], ""), {"value": how})
    found = await decoder.decode("value", b"7" * 1001)
    assert (found.kind, found.size) == ("too large", 1001)
    assert "1,001 bytes" in found.problem
    assert found.text.startswith("00000000  37 37")
    masked = Decoder(CallerFormats(None), Masks([Mask.parse("t/value.x")], "t"), {"value": how})
    assert (await masked.decode("value", b"7" * 1001)).text == HIDDEN
