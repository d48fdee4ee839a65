import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config import InvalidSetting, parse_overrides, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("# note\n! note\n\n   # indented note\n", {}),
        ("a=1\nb:2\nc 3\nd\t=\t4\ne = : 5", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ": 5"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("list=a,\\\n      b,\\\n  c", {"list": "a,b,c"}),
        ("a=1\\", {"a": "1"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=1\\\n# part of the value", {"a": "1# part of the value"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é\U0001f600"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=1\na=2", {"a": "2"}),
        ("path=C\\:\\\\logs", {"path": "C:\\logs"}),
        ("a=trailing  ", {"a": "trailing  "}),
        ("url=http://host:1/?a=b#c", {"url": "http://host:1/?a=b#c"}),
    ],
)
def test_java_reads_it_so(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("digits", ["12g4", "1_23", "+123", " 123", "123"])
def test_a_broken_escape_names_its_line(digits: str) -> None:
    with pytest.raises(InvalidSetting, match="line 3 "):
        parse_properties(f"# note\na=1\nb=\\u{digits}")


def escape(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


plain = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(plain, plain))
def test_escaped_text_comes_back(properties: dict[str, str]) -> None:
    written = "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items())
    assert parse_properties(written) == properties


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except InvalidSetting:
        assert "\\u" in text


def test_overrides_from_the_command_line() -> None:
    assert parse_overrides(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}
    with pytest.raises(InvalidSetting, match="write it as name=value"):
        parse_overrides(["num.partitions"])
