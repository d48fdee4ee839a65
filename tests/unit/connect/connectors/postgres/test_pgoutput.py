"""What the encoder of the tests writes is read as it was; what is cut off or wrong is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoded,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Update,
    decode,
)
from odradek.connect.errors import DataError
from tests.unit.connect.connectors.postgres.pgoutput_encoder import encode

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
oids = st.integers(0, 2**32 - 1)
lsns = st.integers(0, 2**64 - 1)
times = st.integers(0, 2**62)
rows = st.lists(st.none() | st.just(UNCHANGED) | texts, max_size=8)
columns = st.builds(RelationColumn, names, oids, st.integers(-(2**31), 2**31 - 1), st.booleans())
messages: st.SearchStrategy[Decoded] = st.one_of(
    st.builds(Relation, oids, names, names, st.sampled_from("dnfi"), st.lists(columns).map(tuple)),
    st.builds(Type, oids, names, names),
    st.builds(Begin, lsns, times, oids),
    st.builds(Commit, lsns, lsns, times),
    st.builds(Origin, lsns, names),
    st.builds(Insert, oids, rows),
    st.builds(Update, oids, rows, st.none(), rows),
    st.builds(Update, oids, st.none(), st.none() | rows, rows),
    st.builds(Delete, oids, rows, st.none()),
    st.builds(Delete, oids, st.none(), rows),
    st.builds(Truncate, st.lists(oids).map(tuple), st.booleans(), st.booleans()),
    st.builds(Message, st.booleans(), lsns, names, st.binary()),
)


@given(messages)
def test_a_message_is_read_as_it_was_written(message: Decoded) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_message_that_is_cut_off_is_refused_or_shorter(
    message: Decoded, data: st.DataObject
) -> None:
    whole = encode(message)
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with suppress(DataError):
        assert decode(cut) != message


@given(st.binary(min_size=1))
def test_no_bytes_raise_anything_but_a_data_error(data: bytes) -> None:
    with suppress(DataError):
        decode(data)


def test_an_unknown_message_is_named() -> None:
    with pytest.raises(DataError, match="no message b'z'"):
        decode(b"z123")
    with pytest.raises(DataError):
        decode(b"")
