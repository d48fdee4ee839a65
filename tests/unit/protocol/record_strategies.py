"""Records of every shape, for the tests of batches."""

from hypothesis import strategies as st

Headers = list[tuple[str, bytes | None]]
Content = tuple[bytes | None, bytes | None, Headers, int]


def maybe_bytes(most: int) -> st.SearchStrategy[bytes | None]:
    return st.none() | st.binary(max_size=most)


def record_contents() -> st.SearchStrategy[Content]:
    headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes(200)), max_size=4)
    # Also far apart, so that differences take varints of every length and either sign.
    timestamps = st.integers(0, 5000) | st.integers(-1, 1 << 60)
    return st.tuples(maybe_bytes(300), maybe_bytes(3000), headers, timestamps)
