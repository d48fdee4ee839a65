"""What is not TOML is answered with the line, and with quotes if they are missing."""

import pytest

from odradek.config.toml_text import parse_toml
from odradek.config.values import InvalidValue


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("a = localhost:9092\n", '; text needs quotes: a = "localhost:9092"'),
        ("[p]\nbootstrap.servers = h:1  # x\n", '; text needs quotes: bootstrap.servers = "h:1"'),
        ("trigger = 10 seconds\n", '; text needs quotes: trigger = "10 seconds"'),
        ("[p\n", ": [p"),
        ('a = "x\n', ': a = "x'),
    ],
)
def test_the_line_to_write_is_said(text: str, ending: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_toml(text)
    assert str(raised.value).endswith(ending)


def test_toml_is_read() -> None:
    assert parse_toml('a.b = "x"\nc = 1\n') == {"a": {"b": "x"}, "c": 1}
