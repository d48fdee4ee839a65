"""DescribeUserScramCredentials (v0): the SCRAM mechanisms of users and their iterations.

Salts and keys are never sent.
"""

from collections.abc import Mapping
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import (
    API,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.security.roles import Area
from odradek.security.scram import MalformedCredential, ScramCredential, ScramMechanism


async def handle(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    try:
        configs_by_user = await services.configs.users()
    except ApiError as error:
        return DescribeUserScramCredentialsResponse(
            error_code=error.code, error_message=error.message
        )
    # A request that names no user asks for all users with credentials.
    requested = [user.name for user in request.users or ()]
    credentials_by_user = {
        user: _credentials(configs_by_user.get(user, {})) for user in requested or configs_by_user
    }
    users = requested or sorted(user for user, infos in credentials_by_user.items() if infos)
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            _result(user, credentials_by_user[user], is_duplicate=user in context.duplicates)
            for user in users
        ],
    )


def _result(
    user: str, credentials: list[CredentialInfo], *, is_duplicate: bool
) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_message=None)
    if is_duplicate:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"User {user} is named more than once."
    elif not credentials:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"User {user} has no SCRAM credentials."
    else:
        result.credential_infos = credentials
    return result


def _credentials(settings: Mapping[str, str]) -> list[CredentialInfo]:
    credentials = []
    for mechanism in ScramMechanism:
        text = settings.get(mechanism.kafka_name)
        if text is None:
            continue
        try:
            iterations = ScramCredential.decode(text).iterations
        except MalformedCredential:
            continue  # It was written to the metadata store by hand. No client can use it.
        credentials.append(CredentialInfo(mechanism=mechanism, iterations=iterations))
    return credentials


def _error_response(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=error.message)


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.DESCRIBE, _error_response, Area.USERS),
    splitting=[Splitting("users", "results", identity=lambda user: user.name)],
)
