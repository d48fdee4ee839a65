"""Delegation tokens in every kind of store, through two connections, as two brokers have them."""

import asyncio
import json

import pytest

from odradek.cluster.cluster_secret import ClusterSecret
from odradek.cluster.delegation_tokens import DelegationTokens
from odradek.config import BrokerSettings
from odradek.config.live import LiveSettings
from odradek.metadata import Metadata, MetadataCache
from odradek.metadata.delegation_token_nodes import TOKENS, decode_token, encode_token, token_path
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.store_setup import prepare_store
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.security.delegation_tokens import TokenInformation
from odradek.security.principals import Principal
from odradek.world import World
from odradek.world.randomness import Randomness
from tests.unit.metadata.conftest import InlineWorkers, Run

ADA = Principal("User", "ada").in_groups(["shop", "admins"])
BOB = Principal("User", "bob")


async def tokens_at(metadata: Metadata) -> tuple[DelegationTokens, MetadataCache]:
    store = metadata.connect()
    await store.next_session()
    await prepare_store(store, "a-cluster")
    cache = MetadataCache(store)
    await cache.load()
    settings = LiveSettings(BrokerSettings.from_properties({"log.dirs": "/data"}))
    world = World(workers=InlineWorkers())
    return DelegationTokens("key", store, cache, settings, world), cache


def test_the_life_of_a_token(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        (one, _), (other, _) = await tokens_at(metadata), await tokens_at(metadata)
        token = await one.create(ADA, ADA, [BOB], 60_000)
        assert await other.find(token.token_id) == token
        assert (token.owner.groups, token.requester.groups) == (ADA.groups, ())
        hmac = one.hmac_of(token.token_id)
        assert hmac == other.hmac_of(token.token_id)
        sooner = await other.renew(hmac, BOB, 30_000)
        assert await one.find(token.token_id) == sooner
        renewed = await asyncio.gather(*(at.renew(hmac, BOB, -1) for at in (one, other) * 3))
        assert all(found.expires_ms == token.max_ms for found in renewed)
        await one.expire(hmac, BOB, -1, may_revoke_all=False)
        assert await other.find(token.token_id) is None
        with pytest.raises(ApiError) as gone:
            await other.renew(hmac, BOB, -1)
        assert gone.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    run(scenario)


def test_the_secret_of_a_cluster_is_the_same_at_all_brokers(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        caches = [(await tokens_at(metadata))[1] for _ in range(3)]
        secrets = [ClusterSecret(cache, Randomness()) for cache in caches]
        found = await asyncio.gather(*(secret.get() for secret in secrets))
        assert len(set(found)) == 1
        assert len(found[0]) == 64

    run(scenario)


# The nodes


def token(name: str = "ada") -> TokenInformation:
    owner = Principal("User", name)
    return TokenInformation("id", owner, owner, (Principal("User", "a:b"),), 1, 2, 3)


@pytest.mark.parametrize("name", ["ada", " ada", "ada ", "a%2Fd/a", "CN=ada,O=*", "ä:ö", "a\tb\n"])
def test_names_are_kept_to_the_letter(name: str) -> None:
    path = f"{TOKENS}/id"
    assert decode_token(path, encode_token(token(name))) == token(name)


def test_a_node_that_kafka_has_written() -> None:
    node = {
        "version": 3,
        "owner": "User%3Aada",
        "tokenRequester": "User%3Abob",
        "renewers": ["User%3Aeve"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "uZ9XtbArSFGGtYwJWcRdRQ",
    }
    path = f"{TOKENS}/uZ9XtbArSFGGtYwJWcRdRQ"
    decoded = decode_token(path, json.dumps(node).encode())
    assert str(decoded.owner) == "User:ada"
    assert str(decoded.requester) == "User:bob"
    older = {name: value for name, value in node.items() if name != "tokenRequester"}
    decoded = decode_token(path, json.dumps({**older, "version": 1}).encode())
    assert str(decoded.requester) == "User:ada"
    for broken in (b"", b"[]", b"{}", json.dumps({**node, "owner": "ada"}).encode()):
        with pytest.raises(MalformedNode):
            decode_token(path, broken)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "../x", "a b", "x" * 65, "ä"])
def test_what_is_no_id_has_no_path(text: str) -> None:
    assert token_path(text) is None
