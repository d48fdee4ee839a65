"""Frames come out whole and in order however the bytes were cut, and limits hold early."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import BadFrameSize, FrameSplitter

LIMIT = 100_000


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@given(
    st.lists(
        st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"x" * 8192, b"y" * 9000])),
        max_size=8,
    ),
    st.lists(st.integers(1, 12_000), min_size=1, max_size=10),
)
def test_frames_do_not_depend_on_how_the_bytes_were_cut(
    contents: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(framed(content) for content in contents)
    splitter = FrameSplitter(LIMIT)
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        frames += [bytes(frame) for frame in splitter.feed(stream[position : position + size])]
        position += size
        turn += 1
    assert frames == contents
    assert splitter.unfinished_bytes == 0


def test_one_byte_at_a_time() -> None:
    splitter = FrameSplitter(LIMIT)
    stream = framed(b"first") + framed(b"") + framed(b"third")
    frames = [frame for byte in stream for frame in splitter.feed(bytes([byte]))]
    assert [bytes(frame) for frame in frames] == [b"first", b"", b"third"]


def test_small_frames_are_copied_and_large_ones_are_views_of_their_chunk() -> None:
    chunk = framed(b"small") + framed(b"l" * 20_000)
    small, large = FrameSplitter(LIMIT).feed(chunk)
    assert type(small) is bytes
    assert isinstance(large, memoryview)
    assert large.obj is chunk


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 20])
def test_bad_sizes_are_refused_at_once(size: int, cut: int) -> None:
    splitter = FrameSplitter(LIMIT)
    stream = size.to_bytes(4, "big", signed=True) + bytes(16)
    *early, last = [stream[position : position + cut] for position in range(0, 4, cut)]
    for chunk in early:
        assert splitter.feed(chunk) == []
    with pytest.raises(BadFrameSize) as caught:
        splitter.feed(last)
    assert isinstance(caught.value, MalformedMessage)
    assert str(size) in str(caught.value)


def test_frames_before_a_bad_size_are_not_lost() -> None:
    with pytest.raises(BadFrameSize) as caught:
        FrameSplitter(LIMIT).feed(framed(b"good") + b"\xff\xff\xff\xff")
    assert caught.value.frames == [b"good"]


def test_the_limit_is_inclusive_and_may_change() -> None:
    splitter = FrameSplitter(5)
    assert splitter.feed(framed(b"12345")) == [b"12345"]
    splitter.max_size_bytes = 6
    assert splitter.feed(framed(b"123456")) == [b"123456"]


def test_a_claim_costs_no_memory() -> None:
    splitter = FrameSplitter(2**31 - 1)
    tracemalloc.start()
    try:
        assert splitter.feed(b"\x7f\xff\xff\xff" + b"only this") == []
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
    assert splitter.unfinished_bytes == 13


def test_a_frame_that_was_handed_out_never_changes() -> None:
    splitter = FrameSplitter(LIMIT)
    splitter.feed(framed(b"first")[:6])
    (first,) = splitter.feed(framed(b"first")[6:] + framed(b"second")[:7])
    (second,) = splitter.feed(framed(b"second")[7:])
    assert (bytes(first), bytes(second)) == (b"first", b"second")
