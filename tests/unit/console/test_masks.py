"""Masks: what a rule hides, and that it fails closed."""

import pytest

from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import Filter
from odradek.console.records.globs import matches_glob
from odradek.console.records.masks import HIDDEN, BadMask, Mask, Masks
from odradek.rest.schema_formats import CallerFormats


def masks(*rules: str, topic: str = "customers") -> Masks:
    return Masks([Mask.parse(rule) for rule in rules], topic)


def test_fields_are_masked_where_the_rule_says() -> None:
    data = {"email": "a", "contact": {"email": "b", "tags": [{"email": "c"}]}, "name": "d"}
    assert masks("customers/value.email").apply("value", data) == {**data, "email": HIDDEN}
    assert masks("c*/value.*.email").apply("value", data)["contact"]["email"] == HIDDEN
    everywhere = masks("*/value.**.email").apply("value", data)
    assert everywhere == {
        "email": HIDDEN,
        "contact": {"email": HIDDEN, "tags": [{"email": HIDDEN}]},
        "name": "d",
    }
    assert masks("orders/value.email").apply("value", data) == data
    assert masks("customers/key").apply("key", "ada") == HIDDEN


def test_headers_are_masked_without_regard_to_capitals() -> None:
    found = masks("*/header.Authorization", "*/header.x-*")
    assert found.hides_header("authorization")
    assert found.hides_header("X-Token")
    assert not found.hides_header("trace")


@pytest.mark.parametrize(
    "rule", ["customers", "customers/", "/value", "customers/body.x", "a/value..b", "a/header"]
)
def test_bad_rules_are_refused(rule: str) -> None:
    with pytest.raises(BadMask, match=r"customers/value\.email|header\.NAME"):
        Mask.parse(rule)


@pytest.mark.parametrize("how", ["auto", "text", "hex", "json", "msgpack", "cbor"])
@pytest.mark.parametrize("content", [b'{"email": "ada@x"}', b"ada@x is no json", b"\x00\x01ada@x"])
async def test_no_way_of_reading_shows_a_masked_field(how: str, content: bytes) -> None:
    decoder = Decoder(CallerFormats(None), masks("customers/value.email"), {"value": how})
    decoded = await decoder.decode("value", content)
    for shown in (decoded.text, decoded.preview, str(decoded.data)):
        assert "ada" not in shown
        assert content.hex() not in shown.replace(" ", "")
    assert decoded.is_masked


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True), ("a*", "abc", True), ("*c", "abc", True), ("a*c", "abc", True),
        ("a*b*c", "axbxc", True), ("a*bb*c", "abc", False), ("abc", "abc", True),
        ("ab", "abc", False), ("a*a", "a", False), ("**", "x", True),
    ],
)  # fmt: skip
def test_globs(pattern: str, text: str, fits: bool) -> None:
    assert matches_glob(pattern, text) is fits


@pytest.mark.parametrize("depth", [149, 400, 900, 970, 5000])
async def test_json_nested_deeply_is_shown_or_hidden_and_no_error(depth: int) -> None:
    content = b'{"a":' * depth + b'"x"' + b"}" * depth
    decoder = Decoder(CallerFormats(None), masks("customers/value.**.email"), {})
    key, value = await decoder.decode("key", content), await decoder.decode("value", content)
    assert (key.kind, value.kind) == (("JSON", "JSON") if depth < 150 else ("text", "text"))
    assert value.is_masked == (depth >= 150)
    assert key.preview
    assert key.contains("x")
    assert Filter("key == key and value != 1").matches({"key": key.data, "value": value.data})


@pytest.mark.parametrize(
    ("rules", "is_covered"),
    [
        ("a/value.x", False),
        ("*/value.x", True),
        ("a/value.x, b/value.x", True),
        ("a/value.x, b/value", True),
        ("a/value.x, b/value.y", False),
        ("b/value.y", True),
        ("a/key, b/value", False),
    ],
)
def test_what_is_masked_is_copied_only_to_where_it_is_masked_too(
    rules: str, is_covered: bool
) -> None:
    masks = [Mask.parse(rule) for rule in rules.split(",")]
    assert Masks(masks, "b").cover(Masks(masks, "a")) is is_covered
