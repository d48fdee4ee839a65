"""Admin calls about ACLs."""

from collections.abc import Iterable

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.results import Results
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ANY_ACL = AclFilter()


class AclCalls(AdminChannel):
    async def describe_acls(self, filter_: AclFilter = ANY_ACL) -> list[Acl]:
        """Returns the rules that match a filter, or all of them."""
        response = await self.request(
            DescribeAclsRequest(
                resource_type_filter=filter_.resource_type,
                resource_name_filter=filter_.name,
                pattern_type_filter=filter_.pattern,
                principal_filter=filter_.principal,
                host_filter=filter_.host,
                operation=filter_.operation,
                permission_type=filter_.permission,
            ),
            DescribeAclsResponse,
        )
        if response.error_code:
            raise error_for(response.error_code, response.error_message)
        return [
            Acl(
                ResourcePattern(
                    ResourceType(resource.resource_type),
                    resource.resource_name,
                    PatternType(resource.pattern_type),
                ),
                AccessEntry(
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                ),
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    async def create_acls(self, acls: Iterable[Acl]) -> Results[Acl, KafkaError | None]:
        """Adds rules; a rule that exists already stays as it is."""
        unique_acls = list(dict.fromkeys(arguments.several(Acl, acls, "create_acls()", "ACLs")))
        response = await self.controller_request(
            CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        resource_pattern_type=resource.pattern,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for resource, entry in unique_acls
                ]
            ),
            CreateAclsResponse,
        )
        return Results(
            "create_acls()",
            {
                acl: error_or_none(result.error_code, result.error_message)
                for acl, result in zip(unique_acls, response.results, strict=True)
            },
        )

    async def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, list[Acl] | KafkaError]:
        """Removes the rules that match filters, and returns them by filter."""
        given = arguments.several(AclFilter, filters, "delete_acls()", "filters of ACLs")
        unique_filters = list(dict.fromkeys(given))
        response = await self.controller_request(
            DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=filter_.resource_type,
                        resource_name_filter=filter_.name,
                        pattern_type_filter=filter_.pattern,
                        principal_filter=filter_.principal,
                        host_filter=filter_.host,
                        operation=filter_.operation,
                        permission_type=filter_.permission,
                    )
                    for filter_ in unique_filters
                ]
            ),
            DeleteAclsResponse,
        )
        return Results(
            "delete_acls()",
            {
                filter_: error_or_none(result.error_code, result.error_message) or _removed(result)
                for filter_, result in zip(unique_filters, response.filter_results, strict=True)
            },
        )


def _removed(result: DeleteAclsFilterResult) -> list[Acl]:
    return [
        Acl(
            ResourcePattern(
                ResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)
            ),
            AccessEntry(
                acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type)
            ),
        )
        for acl in result.matching_acls
        if not acl.error_code
    ]
