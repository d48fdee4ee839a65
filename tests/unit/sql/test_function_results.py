"""The results of users' functions as values of their declared types."""

from decimal import Decimal
from typing import Any

import pytest

from odradek.sql.functions.results import checked
from odradek.streams.plan.types import BIGINT, DOUBLE, STRING, ArrayType, DecimalType

PRICE = DecimalType(4, 2)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, PRICE, None),
        (Decimal("12.345"), PRICE, Decimal("12.34")),
        (Decimal("-99.99"), PRICE, Decimal("-99.99")),
        (1, DOUBLE, 1.0),
        ((1, 2), ArrayType(BIGINT), [1, 2]),
    ],
)
def test_a_result_is_converted(value: Any, kind: Any, expected: Any) -> None:
    found = checked(value, kind, "F")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (Decimal(100), PRICE, "does not fit into DECIMAL"),
        (Decimal("99.999"), PRICE, "does not fit into DECIMAL"),
        (Decimal("NaN"), PRICE, "returned NaN, which does not fit"),
        (1 << 63, BIGINT, "does not fit into BIGINT"),
        (True, BIGINT, "returned bool, but its type is BIGINT"),
        (1, STRING, "returned int, but its type is STRING"),
    ],
)
def test_a_result_of_another_type_is_refused(value: Any, kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked(value, kind, "F")
