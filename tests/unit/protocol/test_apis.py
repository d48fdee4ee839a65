"""Declarations of APIs: keys, names, and versions that follow from the fields."""

from pkgutil import iter_modules

import pytest

from odradek.protocol import apis, messages
from odradek.protocol.apis import NEVER_FLEXIBLE, AnyApi, Api, all_apis, find_api
from odradek.protocol.layout import StructType, last_change
from odradek.protocol.schema import Request, Response, Struct, array, int32, string

_NOT_APIS = {"consumer_protocol"}
"""Messages that consumers send each other through the coordinator."""

_CHANGED_NO_FIELD = {
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "ApiVersions",
    "CreateAcls",
    "CreatePartitions",
    "DeleteAcls",
    "DescribeAcls",
    "FindCoordinator",
    "InitProducerId",
    "ListOffsets",
    "SaslHandshake",
    "TxnOffsetCommit",
}
"""APIs whose last version differs from the one before in behaviour or in errors alone."""


@pytest.fixture(autouse=True)
def undeclared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the APIs that a test declares."""
    monkeypatch.setattr(apis, "_declared", dict(all_apis()))


def test_every_module_of_messages_declares_one_api() -> None:
    modules = {module.name for module in iter_modules(messages.__path__)} - _NOT_APIS
    assert {api.module_name for api in all_apis().values()} == modules


@pytest.mark.parametrize("api", all_apis().values(), ids=lambda api: api.name)
def test_names_follow_from_the_name_of_the_module(api: AnyApi) -> None:
    assert api.name == api.module_name.title().replace("_", "")
    assert api.request.__name__ == f"{api.name}Request"
    assert api.response.__name__ == f"{api.name}Response"
    assert find_api(api.key) is api


def _derived(*layouts: StructType, flexible_from: int) -> int:
    flexible = 0 if flexible_from == NEVER_FLEXIBLE else flexible_from
    return max(*map(last_change, layouts), flexible)


def test_the_last_version_is_stated_only_where_no_field_tells_it() -> None:
    stated = {
        api.name
        for api in all_apis().values()
        if api.max_version != _derived(api.request, api.response, flexible_from=api.flexible_from)
    }
    assert stated == _CHANGED_NO_FIELD


class Part(Struct):
    name: str | None = string(nullable="6+")


class ToyRequest(Request):
    old: int = int32("0-2")
    parts: list[Part] = array(Part, "1+")


class ToyResponse(Response):
    tagged: int = int32("4+", tag=0)


def test_versions_follow_from_the_fields() -> None:
    assert Api(30000, ToyRequest, ToyResponse).max_version == 6
    assert Api(30000, ToyRequest, ToyResponse, flexible_from=9).max_version == 9
    stated = Api(30000, ToyRequest, ToyResponse, flexible_from=9, min_version=2, max_version=11)
    assert (stated.min_version, stated.max_version) == (2, 11)
    for message in (ToyRequest, ToyResponse):
        assert message.api_key == 30000
        assert message.versions == (2, 11)
        assert message.is_flexible(9)
        assert not message.is_flexible(8)


def test_a_field_that_disappears_tells_of_the_next_version() -> None:
    class Shrinking(Struct):
        old: int = int32("0-2")

    assert last_change(Shrinking) == 3


def test_a_last_version_that_lacks_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="Toy has fields of version 6"):
        Api(30000, ToyRequest, ToyResponse, max_version=5)


def test_two_apis_cannot_have_one_key() -> None:
    with pytest.raises(ValueError, match="the key 3, which is the key of Metadata"):
        Api(3, ToyRequest, ToyResponse)
    found = find_api(3)
    assert found is not None
    assert found.name == "Metadata"


def test_an_unknown_key_has_no_api() -> None:
    assert find_api(31000) is None


def test_a_struct_tells_the_first_version_with_a_field() -> None:
    assert ToyRequest.first_version_with("old") == 0
    assert ToyRequest.first_version_with("parts") == 1
    assert Part.first_version_with_null("name") == 6
    with pytest.raises(AttributeError, match="ToyRequest has no field age"):
        ToyRequest.first_version_with("age")
