"""Where a dead letter says that it is from."""

import pytest

from odradek.console.records.dead_letters import REDRIVEN, Headers, dead_letter

OWN = ("trace", b"t1")


@pytest.mark.parametrize(
    ("headers", "where"),
    [
        (
            [
                ("__connect.errors.topic", b"orders"),
                ("__connect.errors.partition", b"2"),
                ("__connect.errors.exception.message", b"not JSON"),
            ],
            ("orders", 2, "not JSON"),
        ),
        (
            [
                ("__odradek.errors.topic", b"orders"),
                ("__odradek.errors.partition", b"0"),
                ("__odradek.errors.reason", b"no schema"),
            ],
            ("orders", 0, "no schema"),
        ),
        (
            [("__streams.errors.topic", b"orders"), ("__streams.errors.message", b"too deep")],
            ("orders", None, "too deep"),
        ),
        (
            [
                ("kafka_dlt-original-topic", b"orders"),
                ("kafka_dlt-original-partition", bytes([0, 0, 0, 7])),
                ("kafka_dlt-exception-message", b"timeout"),
            ],
            ("orders", 7, "timeout"),
        ),
        ([], (None, None, "")),
        ([("__connect.errors.topic", None)], (None, None, "")),
    ],
)
def test_each_writer_has_names_of_its_own(
    headers: Headers, where: tuple[str | None, int | None, str]
) -> None:
    letter = dead_letter([OWN, *headers])
    assert (letter.topic, letter.partition, letter.reason) == where
    assert letter.headers_again() == [OWN, (REDRIVEN, b"1")]


def test_it_counts_how_often_a_record_came_back() -> None:
    letter = dead_letter([(REDRIVEN, b"3"), OWN, ("__connect.errors.topic", b"a")])
    assert letter.redriven == 3
    assert letter.headers_again() == [OWN, (REDRIVEN, b"4")]
    assert dead_letter([(REDRIVEN, b"many")]).redriven == 0
    # More digits than Python reads: somebody else's header must not be an error of the page.
    assert dead_letter([(REDRIVEN, b"9" * 5000)]).redriven == 0
    assert dead_letter([("__connect.errors.partition", b"9" * 5000)]).partition is None
