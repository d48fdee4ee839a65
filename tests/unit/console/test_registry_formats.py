"""Pages are shown, and soon, also if the registry does not answer or does not know a schema."""

from typing import Any, cast

import pytest

from odradek.console.records.decoding import Decoder, visible
from odradek.console.records.masks import Mask, Masks
from odradek.console.records.registry_formats import PageCallerFormats
from odradek.schemas.errors import NotRegistered, RegistryUnreachable
from odradek.schemas.registry_client import RegistryClient


class _Registry:
    """A registry that knows no schema, or does not answer."""

    def __init__(self, error: Exception) -> None:
        self.asked: list[int | bytes] = []
        self._error = error

    def by_id_or_guid(self, schema: int | bytes) -> Any:
        self.asked.append(schema)
        raise self._error


def value(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + b"\x02a"


async def test_a_registry_that_is_away_is_asked_once_for_a_page() -> None:
    registry = _Registry(RegistryUnreachable("the registry cannot be asked: no answer"))
    decoder = Decoder(PageCallerFormats(cast(RegistryClient, registry)), Masks([], "t"), {})
    for schema_id in (7, 8, 7, 9):
        found = await decoder.decode("value", value(schema_id))
        assert found.kind == "bytes"
        assert found.problem == decoder.note
    assert registry.asked == [7]
    assert decoder.note == (
        "Values with a schema are shown as bytes: the registry cannot be asked: no answer"
    )
    # What has no schema needs no word about it.
    assert (await decoder.decode("value", b"plain")).problem == ""


async def test_a_schema_that_is_not_known_is_asked_for_once() -> None:
    registry = _Registry(NotRegistered("no schema 7", 404, 40403))
    decoder = Decoder(PageCallerFormats(cast(RegistryClient, registry)), Masks([], "t"), {})
    for schema_id in (7, 8, 7, 8):
        assert (await decoder.decode("value", value(schema_id))).kind == "bytes"
    assert registry.asked == [7, 8]
    assert decoder.note == ""


async def test_a_schema_that_a_header_names_is_asked_for() -> None:
    registry = _Registry(NotRegistered("no such schema", 404, 40403))
    decoder = Decoder(PageCallerFormats(cast(RegistryClient, registry)), Masks([], "t"), {})
    guid = bytes(range(16))
    headers = [("__value_schema_id", b"\x01" + guid)]
    for _ in range(2):
        assert (await decoder.decode("value", b"\x02a", headers)).kind == "bytes"
        assert (await decoder.decode("key", b"\x02a", headers)).kind == "bytes"
    assert registry.asked == [guid]


@pytest.mark.parametrize("error", [RegistryUnreachable("away"), NotRegistered("unknown", 404)])
async def test_masked_values_without_their_schema_are_hidden(error: Exception) -> None:
    masks = Masks([Mask.parse("t/value.email")], "t")
    formats = PageCallerFormats(cast(RegistryClient, _Registry(error)))
    found = await Decoder(formats, masks, {}).decode("value", value(7) + b"ada@x")
    assert found.is_masked
    assert "ada" not in found.text
    assert found.text == found.preview


async def test_no_value_is_shown_backwards() -> None:
    decoder = Decoder(PageCallerFormats(None), Masks([], "t"), {})
    for content in ("paid \u202e001\u2069".encode(), '{"a": "\u2066x\u202a"}'.encode()):
        found = await decoder.decode("value", content)
        assert "\\u20" in found.preview
        assert not set(found.preview + visible(found.text)) & set("\u202e\u2069\u2066\u202a")
        # A search and a copy have the text as it is.
        assert set(found.text) & set("\u202e\u2069\u2066\u202a")
