import pytest

from odradek.schemas.errors import BadPayload
from odradek.schemas.framing import frame, frame_message, unframe, unframe_message


def test_a_frame_is_a_zero_and_the_id() -> None:
    assert frame(258, b"x") == b"\0\0\0\1\2x"
    assert unframe(b"\0\0\0\1\2x") == (258, b"x")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"{}   ", b"\1\0\0\0\1x"])
def test_what_is_not_framed_is_refused(data: bytes) -> None:
    with pytest.raises(BadPayload, match="not framed"):
        unframe(data)


@pytest.mark.parametrize(
    ("indexes", "written"),
    [((0,), b"\0"), ((1,), b"\2\2"), ((2, 0), b"\4\4\0"), ((100,), b"\2\xc8\1")],
)
def test_paths_to_messages_are_zigzag_varints(indexes: tuple[int, ...], written: bytes) -> None:
    data = frame_message(7, indexes, b"payload")
    assert data == b"\0\0\0\0\7" + written + b"payload"
    assert unframe_message(data) == (7, indexes, b"payload")


@pytest.mark.parametrize("path", [b"", b"\2", b"\xff", b"\1", b"\xff\xff\3"])
def test_damaged_paths_are_refused(path: bytes) -> None:
    with pytest.raises(BadPayload, match="message"):
        unframe_message(b"\0\0\0\0\7" + path)
