"""The declaration language and the code it compiles to, on structs made for the purpose."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    record_batches,
    string,
    uint16,
    uint32,
    uuid,
)
from odradek.protocol.types import NO_TOPIC_ID, Part, TopicId
from odradek.protocol.wire import read_unsigned_varint, unsigned_varint


class Inner(Struct):
    number: int = int32(default=-1)
    word: str = string("1+")


class Everything(Message, versions="0-3", flexible="2+"):
    tiny: int = int8()
    small: int = int16(default=7)
    normal: int = int32()
    large: int = int64()
    port: int = uint16()
    count: int = uint32()
    ratio: float = float64()
    yes: bool = boolean(default=True)
    topic_id: TopicId = uuid()
    name: str = string()
    maybe: str | None = string(nullable="1+", default=None)
    blob: bytes = bytes_()
    maybe_blob: bytes | None = bytes_(nullable="0+")
    numbers: list[int] = array(int32)
    words: list[str] = array(string)
    ids: list[TopicId] = array(uuid)
    inners: list[Inner] | None = array(Inner, nullable="1+")
    inner: Inner = nested(Inner)
    maybe_inner: Inner | None = nested(Inner, "2+", nullable="2+")
    tagged_inner: Inner | None = nested(Inner, "2+", tag=0)
    tagged_name: str | None = string("2+", nullable="2+", default=None, tag=1)
    tagged_numbers: list[int] = array(int32, "3+", tag=5)


class Carrier(Message, versions="0-1", flexible="1+"):
    before: int = int32()
    first: Part | None = record_batches()
    between: str = string()
    second: Part | None = record_batches()


class Unnamed(Message, versions="0", flexible="0+"):
    pass


def joined(parts: list[Part]) -> bytes:
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | memoryview))


def full(version: int) -> Everything:
    return Everything(
        tiny=-1,
        small=-2,
        normal=-3,
        large=-4,
        port=65535,
        count=2**32 - 1,
        ratio=0.5,
        yes=False,
        topic_id=TopicId(bytes(range(16))),
        name="näme",
        maybe="x" * 200 if version else "",
        blob=b"\0\xff",
        maybe_blob=None,
        numbers=[1, -2, 3],
        words=["", "two"],
        ids=[NO_TOPIC_ID, TopicId(b"i" * 16)],
        inners=[Inner(number=1), Inner(number=2, word="w" if version else "")],
        inner=Inner(number=3),
        maybe_inner=Inner(number=4) if version >= 2 else None,
        tagged_inner=Inner(number=5, word="tag") if version >= 2 else None,
        tagged_name="tagged" if version >= 2 else None,
        tagged_numbers=[9] if version >= 3 else [],
    )


@pytest.mark.parametrize("version", range(4))
def test_what_was_encoded_is_decoded(version: int) -> None:
    message = full(version)
    content = joined(message.encode(version))
    assert Everything.decode(content, version) == message
    assert Everything.decode(bytearray(content), version) == message
    assert Everything.decode(memoryview(b"..." + content)[3:], version) == message
    assert Everything.decode(b"..." + content, version, 3) == message


@pytest.mark.parametrize("version", range(4))
def test_every_truncation_is_malformed(version: int) -> None:
    content = joined(full(version).encode(version))
    for length in range(len(content)):
        with pytest.raises(MalformedMessage):
            Everything.decode(content[:length], version)
        with pytest.raises(MalformedMessage):
            Everything.decode(content[:length], version, allow_trailing=True)


def test_trailing_bytes_are_malformed_unless_allowed() -> None:
    content = joined(full(1).encode(1)) + b"!"
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        Everything.decode(content, 1)
    assert Everything.decode(content, 1, allow_trailing=True) == full(1)


def test_defaults_are_kafkas_and_lists_are_not_shared() -> None:
    one, other = Everything(), Everything()
    assert (one.small, one.yes, one.name, one.maybe, one.topic_id) == (7, True, "", None, bytes(16))
    assert one.inner == Inner(number=-1)
    assert one.tagged_inner is None
    one.numbers.append(1)
    one.inner.number = 5
    assert other.numbers == []
    assert other.inner.number == -1


def test_fields_that_a_version_lacks_keep_their_defaults() -> None:
    decoded = Everything.decode(joined(full(3).encode(0)), 0)
    assert decoded.maybe_inner is None
    assert decoded.tagged_name is None
    assert decoded.tagged_numbers == []


def test_a_tagged_struct_full_of_defaults_is_left_out() -> None:
    plain = joined(Everything().encode(2))
    assert joined(Everything(tagged_inner=Inner()).encode(2)) == plain


def test_unknown_tagged_fields_are_skipped() -> None:
    content = joined(full(3).encode(3))
    # Seen as version 2, the field with tag 5 is one that nobody knows.
    assert Everything.decode(content, 2) == full(2)


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_a_tagged_field_must_fill_its_size(size: int) -> None:
    class Tagged(Message, versions="0", flexible="0+"):
        name: str | None = string(nullable="0+", default=None, tag=0)

    right = b"\x01\0\x02\x02a"
    assert Tagged.decode(right, 0).name == "a"
    with pytest.raises(MalformedMessage, match="name does not fill"):
        Tagged.decode(b"\x01\0" + bytes([size]) + b"\x02a" + bytes(2), 0, allow_trailing=True)


@given(st.integers(0, 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    content = unsigned_varint(value)
    assert len(content) <= 5
    assert read_unsigned_varint(content + b"!", 0) == (value, len(content))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x81\x80\x80\x80\x80\x00", "five bytes"),
        (b"\xff\xff\xff\xff\xff", "five bytes"),
        (b"\x80\x80\x80\x80\x08", "larger"),
        (b"\xff\xff\xff\xff\x7f", "larger"),
    ],
)
def test_long_varints_are_malformed(content: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        read_unsigned_varint(content + b"!", 0)


def test_an_empty_flexible_message_is_its_tag_section() -> None:
    assert joined(Unnamed().encode(0)) == b"\0"
    assert Unnamed.decode(b"\x01\x07\x02ab", 0) == Unnamed()
    for content in (b"", b"\x01", b"\x01\x07\x03ab", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(MalformedMessage):
            Unnamed.decode(content, 0, allow_trailing=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", None), ("maybe", None), ("inners", None), ("tiny", 128), ("normal", "one")],
)
def test_values_that_do_not_fit_are_refused(field: str, value: object) -> None:
    message = full(0)
    setattr(message, field, value)
    with pytest.raises(ValueError, match="Everything v0 cannot be encoded"):
        message.encode(0)


def test_a_string_beyond_its_length_field_is_refused() -> None:
    """Compact lengths have room for more, but Kafka keeps the limit for them too."""
    for version in range(4):
        longest = joined(Everything(name="x" * 32_767, maybe="").encode(version))
        assert len(Everything.decode(longest, version).name) == 32_767
        with pytest.raises(ValueError, match="cannot be encoded"):
            Everything(name="x" * 32_768, maybe="").encode(version)

    class Named(Message, versions="0", flexible="0+"):
        name: str = string()

    with pytest.raises(MalformedMessage, match="name is longer"):
        Named.decode(b"\x81\x80\x02" + bytes(32_768) + b"\0", 0)


class FileSlice:
    """Records that are somewhere else: only their length is known here."""

    def __len__(self) -> int:
        return 300


@pytest.mark.parametrize("version", range(2))
def test_records_are_neither_copied_nor_read(version: int) -> None:
    elsewhere, here = FileSlice(), memoryview(b"records")
    parts = Carrier(first=elsewhere, between="and", second=here).encode(version)
    assert parts[1] is elsewhere
    assert parts[3] is here
    assert isinstance(parts[0], bytes)
    flat = b"".join(bytes(300) if part is elsewhere else part for part in parts)  # type: ignore[misc]
    decoded = Carrier.decode(flat, version)
    assert isinstance(decoded.first, memoryview)
    assert decoded.first.obj is flat
    assert decoded.first == bytes(300)
    assert (decoded.between, decoded.second) == ("and", b"records")


@pytest.mark.parametrize("version", range(2))
def test_null_records_take_no_part(version: int) -> None:
    (content,) = Carrier(between="x").encode(version)
    assert isinstance(content, bytes)
    assert Carrier.decode(content, version) == Carrier(between="x")


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80" * 5 + b"\x01", b"\xff" * 6]
)
def test_absurd_lengths_are_refused_before_memory_is_taken(length: bytes) -> None:
    class Listing(Message, versions="0", flexible="0+"):
        numbers: list[int] = array(int32)

    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            Listing.decode(length + bytes(100), 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_must_fit_by_the_least_size_of_its_elements() -> None:
    class Pairs(Message, versions="0"):
        class Entry(Struct):
            one: int = int64()
            two: int = int64()

        entries: list[Entry] = array(Entry)

    with pytest.raises(MalformedMessage, match="entries is longer"):
        Pairs.decode(b"\0\0\0\x0a" + bytes(159), 0)
    assert len(Pairs.decode(b"\0\0\0\x0a" + bytes(160), 0).entries) == 10


@pytest.mark.parametrize(
    "content",
    [b"\xff\xff", b"\xff\xfe", b"\x80\x00", b"\x00\x01\xff", b"\x00\x02\xc3\x28", b"\x00\x01"],
    ids=["null", "-2", "-32768", "not-utf8", "half-utf8", "short"],
)
def test_bad_strings_are_malformed(content: bytes) -> None:
    class Named(Message, versions="0"):
        name: str = string()

    with pytest.raises(MalformedMessage):
        Named.decode(content, 0, allow_trailing=True)


@pytest.mark.parametrize("specifier", [string, bytes_, record_batches])
def test_nothing_is_cut_short_at_the_end(specifier: Callable[[], object]) -> None:
    class Last(Message, versions="0-1", flexible="1+"):
        content: object = specifier()

    old = b"\0\x04abc" if specifier is string else b"\0\0\0\x04abc"
    for content, version in ((old, 0), (b"\x05abc", 1)):
        with pytest.raises(MalformedMessage):
            Last.decode(content, version, allow_trailing=True)


def test_lengths_below_null_are_malformed() -> None:
    class Optional(Message, versions="0"):
        name: str | None = string(nullable="0+")

    assert Optional.decode(b"\xff\xff", 0).name is None
    with pytest.raises(MalformedMessage, match="negative"):
        Optional.decode(b"\xff\xfe", 0)


def test_messages_show_what_is_not_default() -> None:
    message = Carrier(before=3, first=b"12345")
    assert repr(message) == "Carrier(before=3, first=<5 bytes>)"
    assert repr(Everything()) == "Everything()"
    assert "secret" not in repr(Everything(blob=b"secret", maybe_blob=b"secret"))


def test_messages_have_slots_and_equality_by_value() -> None:
    message = Inner(number=1)
    with pytest.raises(AttributeError):
        message.nonsense = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Inner(nonsense=1)  # type: ignore[call-arg]
    assert message == Inner(number=1)
    assert message != Inner(number=2)
    assert message != 1
    with pytest.raises(TypeError):
        hash(message)
