"""AlterUserScramCredentials (v0): adds, replaces and removes SCRAM credentials of users.

A request may name a user once, as in Kafka. The client salts and hashes the password; the password
itself is never sent.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    API,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.security.roles import Area
from odradek.security.scram import (
    MAX_ITERATIONS,
    MAX_NAME_LENGTH,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)

Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes: dict[str, Change] = {}
    times: Counter[str] = Counter()
    all_changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in all_changes:
        changes[change.name] = change
        times[change.name] += 1
    results = []
    for user, change in changes.items():
        result = AlterUserScramCredentialsResult(user=user, error_message=None)
        results.append(result)
        try:
            if times[user] > 1:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"User {user} is changed {times[user]} times; once a request is allowed.",
                )
            await _apply(services, change)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return AlterUserScramCredentialsResponse(results=results)


async def _apply(services: Services, change: Change) -> None:
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The name of a user is missing.")
    if len(change.name) > MAX_NAME_LENGTH and isinstance(change, ScramCredentialUpsertion):
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"The name of a user has at most {MAX_NAME_LENGTH} characters.",
        )
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Use SCRAM-SHA-256 or SCRAM-SHA-512."
        ) from None
    if isinstance(change, ScramCredentialDeletion):
        make = partial(_without, change.name, mechanism)
    else:
        make = partial(_with, mechanism, _credential(mechanism, change))
    await services.configs.change_user(change.name, make)


def _credential(mechanism: ScramMechanism, upsertion: ScramCredentialUpsertion) -> ScramCredential:
    if not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{upsertion.iterations} iterations: take {MIN_ITERATIONS} to {MAX_ITERATIONS}.",
        )
    if not upsertion.salt or not upsertion.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt or the password is empty.")
    return ScramCredential.derive(
        mechanism, upsertion.iterations, bytes(upsertion.salt), bytes(upsertion.salted_password)
    )


def _with(
    mechanism: ScramMechanism, credential: ScramCredential, before: Mapping[str, str]
) -> dict[str, str]:
    return {**before, mechanism.kafka_name: credential.encode()}


def _without(user: str, mechanism: ScramMechanism, before: Mapping[str, str]) -> dict[str, str]:
    if mechanism.kafka_name not in before:
        raise ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, f"User {user} has no {mechanism.kafka_name} credential."
        )
    return {name: value for name, value in before.items() if name != mechanism.kafka_name}


def _error_response(
    request: AlterUserScramCredentialsRequest, error: ErrorCode
) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=error, error_message=error.message
            )
            for user in dict.fromkeys(change.name for change in changes)
        ]
    )


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.ALTER, _error_response, Area.USERS)
)
