"""Which quotas there may be, and what is said of those that may not."""

import pytest

from odradek.metadata.quota_nodes import decode_quotas, entity_of, quota_path
from odradek.security.quotas.entities import (
    DEFAULT,
    InvalidQuota,
    QuotaEntity,
    check_quota,
    make_entity,
    parts_of,
    quota_text,
)


@pytest.mark.parametrize(
    ("parts", "entity", "path"),
    [
        ({"user": "ada"}, QuotaEntity(user="ada"), "/config/users/ada"),
        ({"user": None}, QuotaEntity(user=DEFAULT), "/config/users/<default>"),
        (
            {"client-id": "a b", "user": "<default>"},
            QuotaEntity(user="<default>", client_id="a b"),
            "/config/users/%3Cdefault%3E/clients/a%20b",
        ),
        (
            {"user": None, "client-id": None},
            QuotaEntity(user=DEFAULT, client_id=DEFAULT),
            "/config/users/<default>/clients/<default>",
        ),
        ({"client-id": "CN=é*~"}, QuotaEntity(client_id="CN=é*~"),
         "/config/clients/CN%3D%C3%A9%2A%7E"),
        ({"ip": "2001:DB8::0:1"}, QuotaEntity(ip="2001:db8::1"), "/config/ips/2001%3Adb8%3A%3A1"),
        ({"ip": None}, QuotaEntity(ip=DEFAULT), "/config/ips/<default>"),
    ],
)  # fmt: skip
def test_an_entity_has_kafkas_path(
    parts: dict[str, str | None], entity: QuotaEntity, path: str
) -> None:
    assert make_entity(parts) == entity
    assert quota_path(entity) == path
    assert entity_of(path) == entity
    assert make_entity(parts_of(entity)) == entity


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({}, "needs a user"),
        ({"topic": "t"}, "has no quotas"),
        ({"user": ""}, "is empty"),
        ({"ip": "192.0.2.1", "user": "ada"}, "cannot name a user"),
        ({"ip": "localhost"}, "not an IP address"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(parts: dict[str, str | None], told: str) -> None:
    with pytest.raises(InvalidQuota, match=told):
        make_entity(parts)


@pytest.mark.parametrize(
    ("entity", "key", "value", "told"),
    [
        (QuotaEntity(user="ada"), "producer_byte_rat", 1.0, "producer_byte_rate"),
        (QuotaEntity(user="ada"), "connection_creation_rate", 1.0, "has no quota"),
        (QuotaEntity(ip="192.0.2.1"), "producer_byte_rate", 1.0, "connection_creation_rate"),
        (QuotaEntity(user="ada"), "producer_byte_rate", 0.0, "greater than 0"),
        (QuotaEntity(user="ada"), "request_percentage", float("nan"), "greater than 0"),
        (QuotaEntity(user="ada"), "request_percentage", float("inf"), "greater than 0"),
        (QuotaEntity(user="ada"), "producer_byte_rate", 1.5, "whole number"),
        (QuotaEntity(ip=DEFAULT), "connection_creation_rate", 1e10, "at most"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    entity: QuotaEntity, key: str, value: float, told: str
) -> None:
    with pytest.raises(InvalidQuota, match=told):
        check_quota(entity, key, value)
    if told not in ("producer_byte_rate", "has no quota", "connection_creation_rate"):
        check_quota(entity, key, None)


def test_quotas_are_read_from_what_else_is_in_a_node() -> None:
    stored = (
        b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","producer_byte_rate":"1024",'
        b'"request_percentage":"12.5","consumer_byte_rate":"many"}}'
    )
    assert decode_quotas("/config/users/ada", stored) == {
        "producer_byte_rate": 1024.0,
        "request_percentage": 12.5,
    }
    assert decode_quotas("/config/users/ada", b"") == {}
    assert quota_text("producer_byte_rate", 1024.0) == "1024"
    assert quota_text("request_percentage", 12.5) == "12.5"
