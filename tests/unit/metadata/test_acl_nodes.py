"""Access rules as nodes: Kafka's paths and JSON, any name, and what is done about nonsense."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.metadata import Create, Delete, MetadataCache, Set
from odradek.metadata.acl_nodes import (
    acl_path,
    decode_entries,
    encode_entries,
    nodes_above,
    resource_of,
)
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.store_setup import prepare_store
from odradek.protocol.acls import (
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
ALICE = AccessEntry("User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)


def test_paths_are_kafkas() -> None:
    assert acl_path(ORDERS) == "/kafka-acl/Topic/orders"
    every_group = ResourcePattern(ResourceType.GROUP, "*")
    assert acl_path(every_group) == "/kafka-acl/Group/*"
    mine = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "my-", PatternType.PREFIXED)
    assert acl_path(mine) == "/kafka-acl-extended/prefixed/TransactionalId/my-"
    assert nodes_above(mine) == [
        "/kafka-acl-extended",
        "/kafka-acl-extended/prefixed",
        "/kafka-acl-extended/prefixed/TransactionalId",
    ]


@given(
    st.sampled_from([one for one in ResourceType if one > ResourceType.ANY]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
def test_any_name_has_a_path_of_its_own(
    kind: ResourceType, name: str, pattern: PatternType
) -> None:
    resource = ResourcePattern(kind, name, pattern)
    path = acl_path(resource)
    assert resource_of(path) == resource
    assert path.count("/") == len(nodes_above(resource)) + 1


def test_what_lies_on_the_way_is_no_rule() -> None:
    for path in ("/kafka-acl/Topic", "/kafka-acl/Nonsense/x", "/kafka-acl-changes/acl_changes_1"):
        assert resource_of(path) is None


def test_values_are_kafkas() -> None:
    value = encode_entries([ALICE])
    assert json.loads(value) == {
        "version": 1,
        "acls": [
            {
                "principal": "User:alice",
                "permissionType": "Allow",
                "operation": "DescribeConfigs",
                "host": "*",
            }
        ],
    }
    assert decode_entries("/", value) == (ALICE,)
    assert decode_entries("/", encode_entries([ALICE, ALICE])) == (ALICE,)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"acls": 1}',
        b'{"acls": [{}]}',
        b'{"acls": ["x"]}',
        b'{"acls": [{"principal": "a", "host": "*", "operation": "x", "permissionType": "Allow"}]}',
        b'{"acls": [{"principal": "a", "host": "*", "operation": 1, "permissionType": "Allow"}]}',
    ],
)
def test_nonsense_is_called_so(value: bytes) -> None:
    with pytest.raises(MalformedNode):
        decode_entries("/kafka-acl/Topic/t", value)


async def test_an_image_follows_rules_and_keeps_the_last_sensible_ones() -> None:
    store = MemoryMetadata().connect()
    await prepare_store(store, "cluster")
    for above in nodes_above(ORDERS):
        await store.multi(Create(above))
    images = MetadataCache(store)
    await images.load()
    assert images.image.acls == {}

    path = acl_path(ORDERS)
    await images.write(Create(path, encode_entries([ALICE])))
    assert images.image.acls == {ORDERS: (ALICE,)}
    before = images.image
    await images.write(Set(path, b"nonsense"))
    assert images.image.acls == {ORDERS: (ALICE,)}
    await images.write(Delete(path))
    assert images.image.acls == {}
    assert before.acls == {ORDERS: (ALICE,)}


async def test_a_broker_does_not_start_with_rules_it_cannot_read() -> None:
    store = MemoryMetadata().connect()
    await prepare_store(store, "cluster")
    for above in nodes_above(ORDERS):
        await store.multi(Create(above))
    await store.multi(Create(acl_path(ORDERS), b"nonsense"))
    with pytest.raises(MalformedNode):
        await MetadataCache(store).load()
