"""The types of numbers: mypy keeps them apart, and nothing of them is left at run time.

An unused `type: ignore` is an error, so mypy fails on this file if it accepts one of the calls.
"""

from typing import assert_type

from odradek.protocol.types import BrokerId, LeaderEpoch, Offset


def read_from(offset: Offset) -> Offset:
    return offset


def test_an_offset_plus_a_number_of_records_is_an_offset() -> None:
    after = read_from(Offset(7)) + 3
    assert_type(after, Offset)
    assert after == 10
    assert_type(after - Offset(7), int)


def test_other_numbers_are_no_offsets() -> None:
    assert read_from(3) == 3  # type: ignore[arg-type]
    assert read_from(LeaderEpoch(3)) == 3  # type: ignore[arg-type]
    assert read_from(BrokerId(3)) == 3  # type: ignore[arg-type]


def test_the_types_are_plain_numbers_at_run_time() -> None:
    assert type(Offset(3)) is int
    assert type(LeaderEpoch(3)) is int
