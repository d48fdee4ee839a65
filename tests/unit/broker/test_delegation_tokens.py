"""Delegation tokens: who gets them, who may renew, end and see them, and log-ins with them."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from odradek.broker import Broker
from odradek.client import Admin, KafkaError
from odradek.client.errors import AuthenticationFailed
from odradek.config import BrokerSettings, InvalidSetting
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from odradek.security.sasl.server.exchange import Login
from odradek.world import MemoryDisk, World
from tests.unit.broker.authentication.wire import Wire, listener, wire
from tests.unit.broker.harness import Client, on_broker, serving_on_sockets

KEY = "a secret of all brokers"
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required user_boss=secret"
    " user_ada=secret user_bob=secret user_eve=secret;"
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SASL = listener(
    "SASL_PLAINTEXT",
    sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    plain_sasl_jaas_config=PLAIN,
    scram__sha__256_sasl_jaas_config=SCRAM,
    scram__sha__512_sasl_jaas_config=SCRAM,
)
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:boss",
}
SECURED = {**SASL, **RULES, "delegation.token.secret.key": KEY}


@asynccontextmanager
async def admin(broker: Broker, user: str = "", **options: str) -> AsyncIterator[Admin]:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": "secret"}
    async with Admin(
        {
            name.replace("_", "."): text
            for name, text in {
                "bootstrap_servers": broker.bootstrap,
                "security_protocol": "SASL_PLAINTEXT",
                **(login if user else {}),
                **options,
            }.items()
        }
    ) as client:
        yield client


async def refusal(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await call
    return refused.value.code


async def permit(broker: Broker, who: str, operation: Operation, on: ResourcePattern) -> None:
    async with admin(broker, "boss") as boss:
        entry = AccessEntry(who, "*", operation, Permission.ALLOW)
        answers = await boss.create_acls([Acl(on, entry)])
        assert list(answers.values()) == [None]


def user(name: str) -> ResourcePattern:
    return ResourcePattern(ResourceType.USER, f"User:{name}")


# Creation and log-in


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_client_logs_in_with_its_token(mechanism: str) -> None:
    async with serving_on_sockets(SECURED) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=60_000)
        assert (token.owner, token.requester) == ("User:ada", "User:ada")
        assert token.renewers == ("User:bob",)
        assert token.max_ms == token.expires_ms == token.issued_ms + 60_000
        assert token.hmac == hmac.digest(KEY.encode(), token.token_id.encode(), "sha512")
        assert token.password not in repr(token)
        async with admin(broker, **token.login(mechanism)) as again:
            described = await again.describe_cluster()
            assert described.brokers
        assert await ada.describe_delegation_tokens() == [token]


async def test_the_times_of_a_token_follow_the_settings() -> None:
    limits = {
        "delegation.token.max.lifetime.ms": "5000",
        "delegation.token.expiry.time.ms": "2000",
    }
    async with serving_on_sockets({**SECURED, **limits}) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token(max_lifetime_ms=10**15)
        assert token.max_ms - token.issued_ms == 5000, "not more than the broker allows"
        assert token.expires_ms - token.issued_ms == 2000
        for period_ms in (-1, 0, 10**15, 2**63 - 1):
            ends_ms = await ada.renew_delegation_token(token, period_ms)
            assert token.expires_ms <= ends_ms <= token.max_ms, "never beyond the maximum"
        ends_ms = await ada.expire_delegation_token(token, 2**63 - 1)
        assert ends_ms == token.max_ms


async def test_a_session_lasts_as_long_as_the_token() -> None:
    async with serving_on_sockets(SECURED) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token(max_lifetime_ms=1500)
        async with wire(broker) as client:
            lifetime_ms = await scram_login(client, token.token_id, token.password)
            assert 0 < lifetime_ms <= 1500
            assert (await client.metadata()).brokers
            await asyncio.sleep(lifetime_ms / 1000)
            await client.send(CreateDelegationTokenRequest(), 1)
            assert await client.is_closed()
        with pytest.raises(AuthenticationFailed):
            async with admin(broker, **token.login()) as late:
                await late.describe_cluster()
        expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert await refusal(ada.renew_delegation_token(token)) is expired
        assert await refusal(ada.expire_delegation_token(token, 100)) is expired
        await ada.expire_delegation_token(token)
        assert await ada.describe_delegation_tokens() == []


async def scram_login(
    client: Wire, name: str, password: str, extensions: str = ",tokenauth=true"
) -> int:
    """Logs in by hand; returns the lifetime of the session, or -1 if the log-in is refused."""
    assert not (await client.handshake("SCRAM-SHA-256")).error_code
    bare = f"n={name},r=abcdefghijkl{extensions}"
    challenge = (await client.authenticate(f"n,,{bare}".encode())).auth_bytes.decode()
    if not challenge:
        return -1
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={fields['r']}"
    message = f"{bare},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    answer = await client.authenticate(f"{final},p={proof}".encode())
    return -1 if answer.error_code else answer.session_lifetime_ms


async def test_what_is_no_token_does_not_let_in() -> None:
    async with serving_on_sockets(SECURED) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token()
        forged = hmac.digest(b"another secret", token.token_id.encode(), "sha512")
        wrong = base64.b64encode(forged).decode()
        for name, password, extensions in (
            (token.token_id, wrong, ",tokenauth=true"),
            (token.token_id, "", ",tokenauth=true"),
            (token.token_id, token.password, ""),
            (token.token_id, token.password, ",tokenauth=false"),
            ("ada", "secret", ",tokenauth=true"),
            ("../../config/users/ada", token.password, ",tokenauth=true"),
            (f"{token.token_id}/", token.password, ",tokenauth=true"),
        ):
            async with wire(broker) as client:
                assert await scram_login(client, name, password, extensions) == -1, name
        async with wire(broker) as client:
            assert await scram_login(client, token.token_id, token.password) > 0
        await ada.expire_delegation_token(token)
        async with wire(broker) as client:
            assert await scram_login(client, token.token_id, token.password) == -1, "it has ended"


async def test_ids_and_users_look_alike_whether_they_exist_or_not() -> None:
    async with serving_on_sockets(SECURED) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token()
        shapes = set()
        for name in (token.token_id, "AAAAAAAAAAAAAAAAAAAAAA"):
            async with wire(broker) as client:
                await client.handshake("SCRAM-SHA-256")
                first = f"n,,n={name},r=abc,tokenauth=true".encode()
                answer = await client.authenticate(first)
                parts = answer.auth_bytes.decode().split(",")
                shapes.add((answer.error_code, tuple(part[:2] for part in parts), parts[2]))
        assert len(shapes) == 1


# Who may ask


async def test_a_client_that_came_by_a_token_gets_no_token() -> None:
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with serving_on_sockets(SECURED) as broker, admin(broker, "boss") as boss:
        token = await boss.create_delegation_token()
        async with admin(broker, **token.login()) as client:
            for call in (
                client.create_delegation_token(),
                client.create_delegation_token(owner="User:ada"),
                client.renew_delegation_token(token),
                client.expire_delegation_token(token),
                client.describe_delegation_tokens(),
            ):
                assert await refusal(call) is not_allowed


@on_broker(delegation_token_secret_key=KEY)
async def test_nobody_gets_a_token_over_plaintext(connect: Callable[[], Awaitable[Client]]) -> None:
    client = await connect()
    for version in (1, 2, 3):
        created = await client.ask(
            CreateDelegationTokenRequest(), CreateDelegationTokenResponse, version=version
        )
        described = await client.ask(
            DescribeDelegationTokenRequest(owners=None),
            DescribeDelegationTokenResponse,
            version=version,
        )
        assert created.error_code == described.error_code == 64
        assert created.issue_timestamp_ms == created.max_timestamp_ms == -1
    for version in (1, 2):
        renewed = await client.ask(
            RenewDelegationTokenRequest(hmac=b"x"), RenewDelegationTokenResponse, version=version
        )
        expired = await client.ask(
            ExpireDelegationTokenRequest(hmac=b"x"), ExpireDelegationTokenResponse, version=version
        )
        assert renewed.error_code == expired.error_code == 64
        assert renewed.expiry_timestamp_ms == expired.expiry_timestamp_ms == -1


async def test_without_a_key_there_are_no_tokens() -> None:
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for key in ({}, {"delegation.token.secret.key": ""}):
        async with (
            serving_on_sockets({**SASL, **RULES, **key}) as broker,
            admin(broker, "ada") as ada,
        ):
            for call in (
                ada.create_delegation_token(),
                ada.renew_delegation_token(b"x"),
                ada.expire_delegation_token(b"x"),
                ada.describe_delegation_tokens(),
            ):
                assert await refusal(call) is disabled


async def test_a_token_for_somebody_else_needs_a_permission() -> None:
    denied = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    async with serving_on_sockets(SECURED) as broker, admin(broker, "bob") as bob:
        assert await refusal(bob.create_delegation_token(owner="User:ada")) is denied
        await permit(broker, "User:bob", Operation.CREATE_TOKENS, user("ada"))
        assert await refusal(bob.create_delegation_token(owner="User:eve")) is denied
        token = await bob.create_delegation_token(owner="User:ada")
        assert (token.owner, token.requester) == ("User:ada", "User:bob")
        async with admin(broker, "ada") as ada:
            assert await ada.describe_delegation_tokens() == [token]
            assert await ada.renew_delegation_token(token) >= token.expires_ms
        # The requester sees the token, and may not renew or end it.
        assert [found.token_id for found in await bob.describe_delegation_tokens()] == [
            token.token_id
        ]
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await refusal(bob.renew_delegation_token(token)) is mismatch
        assert await refusal(bob.expire_delegation_token(token)) is mismatch


async def test_owners_and_renewers_are_users() -> None:
    invalid = ErrorCode.INVALID_PRINCIPAL_TYPE
    async with serving_on_sockets(SECURED) as broker, admin(broker, "boss") as boss:
        assert await refusal(boss.create_delegation_token(owner="Group:admins")) is invalid
        assert await refusal(boss.create_delegation_token(renewers=["Group:x"])) is invalid
        empty = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type="User", principal_name="")]
        )
        answer = await boss.request(empty, CreateDelegationTokenResponse)
        assert answer.error_code == invalid


async def test_a_token_cannot_fill_the_store() -> None:
    async with serving_on_sockets(SECURED) as broker, admin(broker, "ada") as ada:
        for renewers in (
            [f"User:{number:>0100}" for number in range(1000)],
            ["User:" + "x" * 30_000] * 3,
        ):
            refused = await refusal(ada.create_delegation_token(renewers=renewers))
            assert refused is ErrorCode.POLICY_VIOLATION
        token = await ada.create_delegation_token(renewers=[f"User:{n}" for n in range(100)])
        many = [f"User:{number}" for number in range(50, 10_000)]
        assert await ids(ada, *many) == {token.token_id}


class Members:
    """Knows every user, each with a group of its own."""

    def __init__(self, options: Mapping[str, str]) -> None: ...

    def check(self, name: str, password: str) -> Login | None:
        return Login(name, groups=(f"group of {name}",)) if password == "secret" else None


async def test_a_token_keeps_the_groups_of_its_owner() -> None:
    """Or else a rule that denies something to a group would not be about its members' tokens."""
    name = "listener.name.main.plain.sasl.server.callback.handler.class"
    grouped = {
        **SECURED,
        name: f"{__name__}:Members",
        "super.users": "User:boss;Group:group of ada",
    }
    async with serving_on_sockets(grouped) as broker, admin(broker, "ada") as ada:
        async with admin(broker, "boss") as boss:
            await boss.create_topic("orders")
            foreign = await boss.create_delegation_token(owner="User:ada")
        own = await ada.create_delegation_token()
        named = await ada.create_delegation_token(owner="User:ada")
        for token, sees in ((own, True), (named, True), (foreign, False)):
            async with admin(broker, **token.login()) as client:
                assert ("orders" in await client.list_topics()) is sees


# Who may renew, end and see


async def test_renewers_and_administrators() -> None:
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    async with (
        serving_on_sockets(SECURED) as broker,
        admin(broker, "ada") as ada,
        admin(broker, "bob") as bob,
        admin(broker, "eve") as eve,
        admin(broker, "boss") as boss,
    ):
        token = await ada.create_delegation_token(renewers=["User:bob"])
        assert await bob.renew_delegation_token(token) >= token.expires_ms
        for call in (eve.renew_delegation_token(token), eve.expire_delegation_token(token)):
            assert await refusal(call) is mismatch
        assert await refusal(boss.renew_delegation_token(token)) is mismatch
        assert await refusal(boss.expire_delegation_token(token, 1000)) is mismatch
        await boss.expire_delegation_token(token)
        missing = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await refusal(bob.renew_delegation_token(token)) is missing
        assert await refusal(ada.expire_delegation_token(b"")) is missing


async def test_who_sees_which_tokens() -> None:
    async with (
        serving_on_sockets(SECURED) as broker,
        admin(broker, "ada") as ada,
        admin(broker, "bob") as bob,
        admin(broker, "eve") as eve,
    ):
        adas = await ada.create_delegation_token()
        bobs = await bob.create_delegation_token(renewers=["User:ada"])
        assert await ids(ada) == {adas.token_id, bobs.token_id}
        assert await ids(ada, "User:bob") == {bobs.token_id}
        assert await ids(ada, "User:nobody") == set()
        assert await ada.describe_delegation_tokens([]) == []
        assert await ids(eve) == set()
        await permit(broker, "User:eve", Operation.DESCRIBE_TOKENS, user("bob"))
        assert await ids(eve) == {bobs.token_id}
        on_token = ResourcePattern(ResourceType.DELEGATION_TOKEN, adas.token_id)
        await permit(broker, "User:eve", Operation.DESCRIBE, on_token)
        assert await ids(eve) == {adas.token_id, bobs.token_id}


async def ids(client: Admin, *owners: str) -> set[str]:
    found = await client.describe_delegation_tokens(owners or None)
    return {token.token_id for token in found}


# Settings and the end of tokens


async def test_expired_tokens_are_removed() -> None:
    soon = {**SECURED, "delegation.token.expiry.check.interval.ms": "50"}
    async with serving_on_sockets(soon) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token(max_lifetime_ms=1)
        kept = await ada.create_delegation_token()
        async with asyncio.timeout(10):
            while await ids(ada) != {kept.token_id}:  # noqa: ASYNC110 - it is asked again
                await asyncio.sleep(0.02)
        gone = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await refusal(ada.renew_delegation_token(token)) is gone


def test_the_older_name_of_the_key() -> None:
    properties = {"delegation.token.master.key": KEY, "log.dirs": "/data"}
    assert BrokerSettings.from_properties(properties).delegation_token_secret_key == KEY
    both = {**properties, "delegation.token.secret.key": "another"}
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.from_properties(both)
    assert KEY not in str(refused.value)
    assert "another" not in str(refused.value)


async def test_an_unknown_user_has_one_salt_at_all_brokers() -> None:
    metadata = MemoryMetadata()
    challenges = set()
    peers = {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.main.plain.sasl.jaas.config": PLAIN.replace(
            "required", "required username=boss password=secret"
        ),
    }
    for number in (1, 2):
        properties = {**SECURED, **peers, "broker.id": str(number)}
        async with (
            serving_on_sockets(properties, metadata=metadata) as broker,
            wire(broker) as client,
        ):
            await client.handshake("SCRAM-SHA-256")
            answer = await client.authenticate(b"n,,n=nobody,r=abc")
            challenges.add(answer.auth_bytes.decode().split(",", maxsplit=1)[1])
    assert len(challenges) == 1
    salt = base64.b64decode(challenges.pop().removeprefix("s=").partition(",")[0])
    assert salt.isalnum(), "it must look as one that Kafka's tools have made"


async def test_changes_of_tokens_are_audited() -> None:
    world = World(disk=MemoryDisk())
    properties = {**SECURED, "odradek.audit.sink": "file", "odradek.audit.file": "/audit.log"}
    async with serving_on_sockets(properties, world) as broker, admin(broker, "ada") as ada:
        token = await ada.create_delegation_token(renewers=["User:bob"])
        async with admin(broker, **token.login()) as again:
            await again.describe_cluster()
        await ada.renew_delegation_token(token)
        await ada.expire_delegation_token(token)
    text = world.disk.read("/audit.log").decode()
    changes = [
        (event["api"], event["result"], event["resource"], event["detail"].split()[0])
        for event in map(json.loads, text.splitlines())
        if event["event"] == "change"
    ]
    assert changes == [
        ("CreateDelegationToken", "success", token.token_id, "created"),
        ("RenewDelegationToken", "success", token.token_id, "ends"),
        ("ExpireDelegationToken", "success", token.token_id, "ended"),
    ]
    assert token.password not in text
    logins = {event.get("operation") for event in map(json.loads, text.splitlines())}
    assert f"SCRAM-SHA-512, delegation token {token.token_id}" in logins
