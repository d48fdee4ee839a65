"""AlterClientQuotas (v0-v1): sets or removes quotas of users, client ids and IP addresses.

Each entity is changed on its own: if one is refused, the others are still changed. The quotas of
one entity are changed together or not at all. Brokers obey a change as soon as they see it in the
metadata store. Not done: a quota of a host name; an address is named by its number.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    API,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntryData,
)
from odradek.security.quotas.entities import InvalidQuota, make_entity


async def handle(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    results = []
    for entry in request.entries:
        result = ResponseEntryData(entity=entry.entity, error_message=None)
        results.append(result)
        try:
            await _alter(services, entry, validate_only=request.validate_only)
        except InvalidQuota as error:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, str(error)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return AlterClientQuotasResponse(entries=results)


async def _alter(services: Services, entry: EntryData, *, validate_only: bool) -> None:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    if len(parts) != len(entry.entity):
        raise InvalidQuota("a part of the entity is named twice")
    changes = {op.key: None if op.remove else op.value for op in entry.ops}
    if len(changes) != len(entry.ops):
        raise InvalidQuota("a quota is changed twice")
    await services.quota_store.alter(make_entity(parts), changes, validate_only=validate_only)


def _error_response(
    request: AlterClientQuotasRequest, error: ErrorCode
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=error, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER_CONFIGS, _error_response),
    splitting=[Splitting("entries", "entries")],
)
