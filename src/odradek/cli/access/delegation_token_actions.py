"""The actions of `odradek delegation-tokens`. What they print is what Kafka's tool prints."""

import argparse
import base64
import binascii
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.client.admin.delegation_tokens import DelegationToken, DelegationTokenCalls
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.terminal import print_json, table

_AS_LONG_AS_ALLOWED: Final = -1
_HINTS: Final = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on the brokers, the"
    " same on all, and restart them",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in by SASL or by a certificate, and not by"
    " a token: --command-config names a file with the settings of the log-in",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "a token for somebody else needs odradek acls"
    " --add --allow-principal User:YOU --operation CreateTokens --user-principal User:OWNER",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only its owner and its renewers may do that",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "no token has this HMAC; it may have ended:"
    " odradek delegation-tokens --describe shows all",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "it cannot be used any more; create another one",
}


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code not in _HINTS:
            raise
        message = error.code.message.rstrip(".")
        raise CommandFailed(f"{message}: {_HINTS[error.code]}") from None


async def create(arguments: argparse.Namespace) -> int:
    async with open_admin(DelegationTokenCalls, arguments) as admin:
        with _explained():
            token = await admin.create_delegation_token(
                owner=next(iter(arguments.owner_principal), None),
                renewers=arguments.renewer_principal,
                max_lifetime_ms=_period(arguments.max_life_time_period),
            )
    if arguments.json:
        print_json(_as_json(token))
    else:
        print(f"Created delegation token with tokenId : {token.token_id}\n")
        _print([token])
    return 0


async def describe(arguments: argparse.Namespace) -> int:
    async with open_admin(DelegationTokenCalls, arguments) as admin:
        with _explained():
            tokens = await admin.describe_delegation_tokens(arguments.owner_principal or None)
    if arguments.json:
        print_json([_as_json(token) for token in tokens])
    else:
        print(f"Total number of tokens : {len(tokens)}\n")
        _print(tokens)
    return 0


async def renew(arguments: argparse.Namespace) -> int:
    hmac, period_ms = _hmac(arguments), _period(arguments.renew_time_period)
    async with open_admin(DelegationTokenCalls, arguments) as admin:
        with _explained():
            ends_ms = await admin.renew_delegation_token(hmac, period_ms)
    _print_end(arguments, "renew", ends_ms)
    return 0


async def expire(arguments: argparse.Namespace) -> int:
    hmac, period_ms = _hmac(arguments), arguments.expiry_time_period
    async with open_admin(DelegationTokenCalls, arguments) as admin:
        with _explained():
            ends_ms = await admin.expire_delegation_token(hmac, period_ms)
    _print_end(arguments, "expire", ends_ms)
    return 0


def _period(given: int | None) -> int:
    return _AS_LONG_AS_ALLOWED if given is None else int(given)


def _hmac(arguments: argparse.Namespace) -> bytes:
    try:
        return base64.b64decode(arguments.hmac.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("--hmac is not base 64: copy it as --describe shows it") from None


def _print_end(arguments: argparse.Namespace, operation: str, ends_ms: int) -> None:
    if arguments.json:
        print_json({"expiryTimestamp": ends_ms})
    else:
        print(f"Completed {operation} operation. New expiry date : {_date(ends_ms)}")


def _print(tokens: list[DelegationToken]) -> None:
    headers = ["TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS"]
    headers += ["ISSUEDATE", "EXPIRYDATE", "MAXDATE"]
    print(table(headers, [_row(token) for token in tokens]))


def _row(token: DelegationToken) -> list[str]:
    return [
        token.token_id,
        token.password,
        token.owner,
        token.requester,
        f"[{', '.join(token.renewers)}]",
        *map(_date, (token.issued_ms, token.expires_ms, token.max_ms)),
    ]


def _date(time_ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M", time.localtime(time_ms / 1000))
    except (OverflowError, OSError, ValueError):
        return str(time_ms)


def _as_json(token: DelegationToken) -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "hmac": token.password,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestamp": token.issued_ms,
        "expiryTimestamp": token.expires_ms,
        "maxTimestamp": token.max_ms,
    }
