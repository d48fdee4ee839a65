"""JSON objects that follow each other, cut anywhere."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.rest.json_stream import BadStream, JsonSplitter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=3)


@given(
    objects=st.lists(OBJECTS, max_size=5),
    space=st.sampled_from(["", " ", "\n", "\r\n \t"]),
    cuts=st.lists(st.integers(0, 400), max_size=10),
    is_ascii=st.booleans(),
)
def test_a_stream_has_the_same_objects_however_it_is_cut(
    objects: list[dict[str, Any]], space: str, cuts: list[int], is_ascii: bool
) -> None:
    text = space.join(json.dumps(one, ensure_ascii=is_ascii) for one in objects)
    stream = text.encode("utf-8", "surrogatepass")
    splitter = JsonSplitter(10_000)
    found: list[Any] = []
    before = 0
    for cut in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        found += [json.loads(one) for one in splitter.feed(stream[before:cut])]
        before = cut
    splitter.finish()
    assert found == objects


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"[1]", "begins with"),
        (b"{} x", "begins with"),
        (b'{"a": "' + b"x" * 200, "more than 100 bytes"),
        (b'{"a":' + b"[" * 300, "nested too deeply"),
    ],
)
def test_what_is_no_object_is_refused(stream: bytes, words: str) -> None:
    with pytest.raises(BadStream, match=words):
        list(JsonSplitter(100 if b"x" * 9 in stream else 10_000).feed(stream))


def test_an_end_within_an_object_is_noticed() -> None:
    splitter = JsonSplitter(100)
    assert list(splitter.feed(b'{} {"a": 1')) == [b"{}"]
    with pytest.raises(BadStream, match="ends within"):
        splitter.finish()


def test_many_small_objects_in_one_piece_take_linear_time() -> None:
    def took_s(count: int) -> float:
        began_s = time.perf_counter()
        assert sum(1 for _ in JsonSplitter(100).feed(b"{} " * count)) == count
        return time.perf_counter() - began_s

    # Sixteen times as many took 250 times as long.
    assert took_s(320_000) < 60 * max(took_s(20_000) for _ in range(3))
