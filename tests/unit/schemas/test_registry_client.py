import pytest

from odradek.schemas.errors import RegistryFailed
from odradek.schemas.registry_client import RegistryClient, Schema
from tests.unit.schemas.registries import registry


def test_a_schema_is_asked_for_once() -> None:
    with registry() as known:
        schema_id = known.add("s", {"schema": '"long"'})
        client = RegistryClient(known.url)
        assert client.by_id(schema_id) == client.by_id(schema_id) == Schema("AVRO", '"long"')
        assert known.asked == ["GET /schemas/ids/1"]


def test_references_come_with_what_they_refer_to() -> None:
    with registry() as known:
        known.add("inner", {"schema": "1", "schemaType": "PROTOBUF"})
        middle = {"name": "i.proto", "subject": "inner", "version": 1}
        known.add("middle", {"schema": "2", "schemaType": "PROTOBUF", "references": [middle]})
        outer = {"name": "m.proto", "subject": "middle", "version": 1}
        known.add("outer", {"schema": "3", "schemaType": "PROTOBUF", "references": [outer]})
        found = RegistryClient(known.url).latest("outer")
        imports = (("i.proto", "1"), ("m.proto", "2"))
        assert found == (3, Schema("PROTOBUF", "3", imports))


def test_registering_gives_the_same_id_again() -> None:
    with registry() as known:
        client = RegistryClient(known.url)
        assert client.register("a/b", "JSON", "{}") == client.register("a/b", "JSON", "{}") == 1
        assert known.asked[0] == "POST /subjects/a%2Fb/versions"
        assert known.schemas[1] == {"schema": "{}", "schemaType": "JSON"}


def test_user_and_password_of_the_url_are_sent() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        RegistryClient(known.url.replace("//", "//me:p%40ss@")).by_id(1)
        assert known.authorizations == ["Basic bWU6cEBzcw=="]


def test_failures_say_who_said_what() -> None:
    with registry() as known, pytest.raises(RegistryFailed, match="ids/9: Schema not found"):
        RegistryClient(known.url).by_id(9)
    with pytest.raises(RegistryFailed, match="cannot be asked"):
        RegistryClient(known.url).by_id(1)
    with pytest.raises(RegistryFailed, match="is not the URL of a schema registry"):
        RegistryClient("localhost:8081")
