"""The options of a JDBC URL."""

import pytest

from odradek.connect.connectors.jdbc.driver_options import driver_options, same, seconds
from odradek.connect.errors import InvalidConfig

KNOWN = {"connectTimeout": seconds("connect_timeout"), "options": same("options")}


def options(**given: str) -> dict[str, object]:
    return driver_options(given, KNOWN, frozenset({"tcpKeepAlive"}), "PostgreSQL")


def test_options_are_translated_and_those_that_only_tune_are_ignored() -> None:
    translated = {"connect_timeout": 5, "options": "-c a=b"}
    assert options(connectTimeout="5", options="-c a=b", tcpKeepAlive="true") == translated


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("connectTimout", "5", "did you mean connectTimeout"),
        ("connectTimeout", "5s", "connectTimeout of the URL must be a whole number, not '5s'"),
    ],
)
def test_what_is_wrong_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        options(**{name: value})
