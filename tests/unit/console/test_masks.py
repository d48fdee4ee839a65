"""Masks: what a rule hides, and that it fails closed."""

from typing import cast

import cbor2
import msgspec
import pytest

from odradek.console.pages.connector_form import _renames, masked
from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import Filter
from odradek.console.records.globs import matches_glob
from odradek.console.records.masks import HIDDEN, BadMask, Mask, Masks
from odradek.rest.schema_formats import CallerFormats
from odradek.schemas.framing import VALUE_HEADER, Headers


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


class _BySchema:
    """Decodes every value to the same data, as if the registry knew its schema."""

    def __init__(self, kind: str, data: object) -> None:
        self._found = {"type": kind, "schema_id": 7, "data": data}

    async def shown(self, value: bytes | None, headers: Headers, part: str) -> dict[str, object]:
        return self._found


@pytest.mark.parametrize(
    ("kind", "rule", "data"),
    [
        # Avro's JSON names the type of a value of a union, at any level.
        ("AVRO", "value.customer.email", {"customer": {"shop.Customer": {"email": "ada@x"}}}),
        ("AVRO", "value.customer.email", {"shop.Order": {"customer": {"email": "ada@x"}}}),
        ("AVRO", "value.email", {"email": {"string": "ada@x"}}),
        ("AVRO", "value.*.email", {"a": {"array": [{"shop.A": {"email": "ada@x"}}]}, "b": 1}),
        ("AVRO", "value.**.email", {"a": {"shop.A": {"email": {"string": "ada@x"}}}}),
        # The schema says home_address, and JSON homeAddress.
        ("PROTOBUF", "value.home_address.e_mail", {"homeAddress": {"eMail": "ada@x"}}),
        ("PROTOBUF", "value.homeAddress", {"homeAddress": {"eMail": "ada@x"}}),
        ("PROTOBUF", "value.**.e_mail", {"list": [{"eMail": "ada@x"}]}),
    ],
)
async def test_names_of_a_schema_are_those_that_a_rule_means(
    kind: str, rule: str, data: object
) -> None:
    formats = cast(CallerFormats, _BySchema(kind, data))
    decoder = Decoder(formats, masks(f"customers/{rule}"), {})
    decoded = await decoder.decode("value", b"\x00\x00\x00\x00\x07x")
    assert decoded.is_masked
    assert "ada" not in decoded.text + decoded.preview + str(decoded.data)


async def test_a_header_may_name_the_schema() -> None:
    formats = cast(CallerFormats, _BySchema("AVRO", {"name": "ada", "email": "ada@x"}))
    decoder = Decoder(formats, masks("customers/value.email"), {})
    named = await decoder.decode("value", b"ada", [(VALUE_HEADER, b"\x01" + bytes(16))])
    assert (named.kind, named.data) == ("Avro 7", {"name": "ada", "email": HIDDEN})
    unnamed = await decoder.decode("value", b"ada", [("other", b"\x01")])
    assert (unnamed.kind, unnamed.data) == ("text", HIDDEN)


async def test_fields_that_are_not_meant_are_shown() -> None:
    data = {"customer": {"shop.Customer": {"name": "ada", "email": "ada@x"}}}
    decoder = Decoder(
        cast(CallerFormats, _BySchema("AVRO", data)), masks("customers/value.customer.email"), {}
    )
    decoded = await decoder.decode("value", b"\x00\x00\x00\x00\x07x")
    assert decoded.data == {"customer": {"shop.Customer": {"name": "ada", "email": HIDDEN}}}


@pytest.mark.parametrize(
    "content", [b'{"email": "ada@x", "email": null}', b'{"a": {"email": "ada@x"}, "a": 1}']
)
async def test_a_field_that_json_has_twice_is_not_shown_once(content: bytes) -> None:
    rules = masks("customers/value.email", "customers/value.a.email")
    decoded = await Decoder(CallerFormats(None), rules, {}).decode("value", content)
    assert "ada" not in decoded.text
    assert not decoded.contains("ada")


async def test_a_format_that_is_only_guessed_shows_nothing_unless_the_fields_are_there() -> None:
    rules = masks("customers/value.email")
    as_cbor = Decoder(CallerFormats(None), rules, {"value": "cbor"})
    as_msgpack = Decoder(CallerFormats(None), rules, {"value": "msgpack"})
    record = {"email": "ada@x", "n": 1}
    right = await as_cbor.decode("value", cbor2.dumps(record))
    assert right.data == {"email": HIDDEN, "n": 1}
    right = await as_msgpack.decode("value", msgspec.msgpack.encode(record))
    assert right.data == {"email": HIDDEN, "n": 1}
    # A map of MessagePack with two fields is a list of CBOR: here one of texts.
    for content in (b"\x82\x65ada@x\x61n", cbor2.dumps({b"email": "ada@x"})):
        wrong = await as_cbor.decode("value", content)
        assert (wrong.text, wrong.preview, wrong.data) == (HIDDEN, HIDDEN, HIDDEN)


@pytest.mark.parametrize(
    ("config", "renames"),
    [
        ({"topic": "customers", "file": "x"}, False),
        ({"topic": "other", "transforms": ""}, False),
        ({"topic": "other", "transforms": "r", "transforms.r.type": "RegexRouter"}, True),
        ({"topics": "customers"}, True),
        ({"topics.regex": "c.*"}, True),
    ],
)
def test_a_preview_that_may_rename_what_is_masked_is_refused(
    config: dict[str, str], renames: bool
) -> None:
    assert _renames(config) is renames


def test_an_error_in_a_preview_quotes_no_value() -> None:
    record = {"topic": "customers", "error": "'ada@x' is no number"}
    assert masked(record, masks("customers/value.email"))["error"] == HIDDEN
    assert masked(record, masks("orders/value.email")) == record
