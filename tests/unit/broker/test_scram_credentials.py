"""SCRAM credentials over the wire: upsert, describe, delete, and what is refused."""

from collections.abc import Awaitable, Callable
from unittest.mock import patch

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.security.scram import ScramCredential
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

USER = "a/user"
SHA_256, SHA_512 = 1, 2


def upsertion(
    user: str = USER, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"salted"
    )


def deletion(user: str = USER, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


async def alter(
    client: Client, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, int]:
    response = await client.ask(
        AlterUserScramCredentialsRequest(
            deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
        ),
        AlterUserScramCredentialsResponse,
    )
    return {result.user: result.error_code for result in response.results}


async def describe(client: Client, *users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    response = await client.ask(
        DescribeUserScramCredentialsRequest(
            users=[UserName(name=user) for user in users] if users else None
        ),
        DescribeUserScramCredentialsResponse,
    )
    assert response.error_code == ErrorCode.NONE
    return {
        result.user: (
            result.error_code,
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in response.results
    }


@on_broker()
async def test_credentials_come_change_and_go(connect: Connect) -> None:
    client = await connect()
    assert await describe(client) == {}
    assert await describe(client, USER) == {USER: (ErrorCode.RESOURCE_NOT_FOUND, [])}
    assert await alter(client, upsertion()) == {USER: 0}
    assert await alter(client, upsertion(mechanism=SHA_512, iterations=8192)) == {USER: 0}
    assert await alter(client, upsertion("other", iterations=5000)) == {"other": 0}
    both = (0, [(SHA_256, 4096), (SHA_512, 8192)])
    assert await describe(client) == {USER: both, "other": (0, [(SHA_256, 5000)])}
    assert await describe(client, USER) == {USER: both}
    assert await alter(client, deletion()) == {USER: 0}
    assert await describe(client, USER) == {USER: (0, [(SHA_512, 8192)])}
    assert await alter(client, deletion(mechanism=SHA_512), deletion("other")) == {
        USER: 0,
        "other": 0,
    }
    assert await describe(client) == {}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([deletion()], ErrorCode.RESOURCE_NOT_FOUND),
        ([upsertion(mechanism=3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(""), upsertion()], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("x" * 1001)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(), upsertion(mechanism=SHA_512)], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion(), deletion()], ErrorCode.DUPLICATE_RESOURCE),
    ],
)
@on_broker()
async def test_what_is_refused(
    connect: Connect,
    changes: list[ScramCredentialUpsertion | ScramCredentialDeletion],
    code: ErrorCode,
) -> None:
    client = await connect()
    answers = await alter(client, *changes)
    refused = changes[0].name
    assert answers[refused] == code
    assert refused not in await describe(client)


@on_broker()
async def test_a_user_is_described_once_a_request(connect: Connect) -> None:
    client = await connect()
    await alter(client, upsertion())
    assert await describe(client, USER, USER) == {USER: (ErrorCode.DUPLICATE_RESOURCE, [])}


@on_broker()
async def test_only_credentials_that_are_asked_for_are_decoded(connect: Connect) -> None:
    client = await connect()
    await alter(client, upsertion(), upsertion("other"), upsertion("third"))
    with patch.object(ScramCredential, "decode", wraps=ScramCredential.decode) as decode:
        assert await describe(client, "other") == {"other": (0, [(SHA_256, 4096)])}
    assert decode.call_count == 1
