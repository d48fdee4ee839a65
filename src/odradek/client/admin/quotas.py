"""Admin calls about quotas."""

from collections.abc import Mapping

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.results import Results
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.security.quotas.entities import DEFAULT, EntityType, QuotaEntity, parts_of

ANY_NAME = "*"
"""In a filter: those with a name, and the default."""

ANY_ENTITY = QuotaEntity()
"""A filter that every entity matches."""

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_LINE = 'QuotaEntity(user="ada"): {"producer_byte_rate": 1_048_576}'


class QuotaCalls(AdminChannel):
    async def describe_client_quotas(
        self, entity: QuotaEntity = ANY_ENTITY, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns the quotas of the entities that match, or of all of them.

        A part of `entity` is a name, `DEFAULT` (an empty name) for the default, or `ANY_NAME` for
        both. Entities with further parts match too, unless `strict`.
        """
        call = "describe_client_quotas()"
        arguments.one_of(QuotaEntity, entity, call, "an entity", 'QuotaEntity(user="ada")')
        response = await self.request(
            DescribeClientQuotasRequest(
                components=[
                    _component(kind, name)
                    for kind, name in zip(EntityType, entity, strict=True)
                    if name is not None
                ],
                strict=strict,
            ),
            DescribeClientQuotasResponse,
        )
        if response.error_code:
            raise error_for(response.error_code, response.error_message)
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or []
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Results[QuotaEntity, KafkaError | None]:
        """Sets quotas by name; None removes one. The quotas of an entity change together."""
        call = "alter_client_quotas()"
        entries = []
        for entity, quotas in arguments.mapping(changes, call, "{" + _LINE + "}").items():
            arguments.one_of(QuotaEntity, entity, call, "an entity", 'QuotaEntity(user="ada")')
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name)
                        for kind, name in parts_of(entity).items()
                    ],
                    ops=[
                        OpData(
                            key=arguments.a_name(key, call, "quota"),
                            value=0.0 if value is None else float(value),
                            remove=value is None,
                        )
                        for key, value in arguments.mapping(quotas, call, _LINE).items()
                    ],
                )
            )
        response = await self.controller_request(
            AlterClientQuotasRequest(entries=entries, validate_only=validate_only),
            AlterClientQuotasResponse,
        )
        return Results(
            call,
            {
                entity: error_or_none(result.error_code, result.error_message)
                for entity, result in zip(changes, response.entries, strict=True)
            },
        )


def _component(kind: EntityType, name: str) -> ComponentData:
    if name == ANY_NAME:
        return ComponentData(entity_type=kind.value, match_type=_ANY, match=None)
    if name == DEFAULT:
        return ComponentData(entity_type=kind.value, match_type=_DEFAULT, match=None)
    return ComponentData(entity_type=kind.value, match_type=_EXACT, match=name)


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    def part(kind: EntityType) -> str | None:
        return (parts[kind.value] or DEFAULT) if kind.value in parts else None

    return QuotaEntity(part(EntityType.USER), part(EntityType.CLIENT_ID), part(EntityType.IP))
