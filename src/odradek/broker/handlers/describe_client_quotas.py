"""DescribeClientQuotas (v0-v1): the quotas of the entities that match a filter.

A filter has a component for each type that matters (user, client-id, ip): a name, the default, or
any of both. Entities that have further types match too, unless the filter is strict.
"""

from enum import IntEnum
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_client_quotas import (
    API,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from odradek.security.quotas.entities import EntityType, QuotaEntity, parts_of


class MatchType(IntEnum):
    """How a component of a filter matches."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


async def handle(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        _check(request.components)
        quotas = await services.quota_store.all()
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    entries = [
        EntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name)
                for kind, name in parts_of(entity).items()
            ],
            values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )
        for entity, values in sorted(quotas.items(), key=_order)
        if _matches(request, entity)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _order(item: tuple[QuotaEntity, object]) -> tuple[tuple[bool, str], ...]:
    return tuple((name is not None, name or "") for name in item[0])


def _check(components: list[ComponentData]) -> None:
    """Raises `ApiError` if there can be no such filter."""
    kinds = [component.entity_type for component in components]
    for component in components:
        if component.entity_type not in {kind.value for kind in EntityType}:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Entities of the type {component.entity_type!r} have no quotas.",
            )
        if component.match_type not in set(MatchType):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"There is no match type {component.match_type}."
            )
        if (component.match_type == MatchType.EXACT) != (component.match is not None):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "An exact match, and only this one, needs a name."
            )
    if len(set(kinds)) != len(kinds):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A type of entity is in the filter twice.")
    if EntityType.IP.value in kinds and len(kinds) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "An ip cannot be in a filter with a user or a client-id."
        )


def _matches(request: DescribeClientQuotasRequest, entity: QuotaEntity) -> bool:
    parts = parts_of(entity)
    if request.strict and len(parts) != len(request.components):
        return False
    for component in request.components:
        if component.entity_type not in parts:
            return False
        name = parts[component.entity_type]
        if component.match_type == MatchType.EXACT and name != component.match:
            return False
        if component.match_type == MatchType.DEFAULT and name is not None:
            return False
    return True


def _error_response(
    request: DescribeClientQuotasRequest, error: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=error.message, entries=None)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE_CONFIGS, _error_response)
)
