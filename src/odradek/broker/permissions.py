"""What a client needs permission for, declared for each API by its handler module.

Every `Handler` declares one of these; a handler without one cannot be made:

- `required_on_cluster` and `required_on_group`: the whole request needs one operation on one
  resource. The dispatcher asks for it before it calls the handler.
- `CheckedByHandler`: the answer is made item by item, or depends on the request. The handler itself
  asks the context of the request (`RequestContext.authorize` and its kin), and says here what it
  asks for.
- `OpenToAll`: no permission is needed; the reason is stated.

The reference page of the APIs shows the declarations. Without an authorizer
(`authorizer.class.name`) everything is allowed, and the dispatcher asks for nothing.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Request, Response
from odradek.security.roles import Area

DENIALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a client that has no permission on a resource of each type."""

AnyRequest = TypeVar("AnyRequest", bound=Request)


class _HasGroup(Protocol):
    group_id: str


AnyGroupRequest = TypeVar("AnyGroupRequest", bound=_HasGroup)
Asked = TypeVar("Asked")


class Required(Generic[Asked]):
    """The request as a whole needs `operation` on one resource. `refuse` makes the response for a
    client that is not allowed it."""

    __slots__ = ("_name_of", "_refuse", "area", "description", "operation", "resource_type")

    def __init__(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name_of: Callable[[Asked], str],
        refuse: Callable[[Asked, ErrorCode], Response],
        area: Area = Area.OPERATION,
    ) -> None:
        """`area` says what an operation on the cluster is about; roles make a difference."""
        self.operation = operation
        self.resource_type = resource_type
        self.area = area
        self._name_of = name_of
        self._refuse = refuse
        self.description = f"{operation.name} on the {resource_type.name.lower()}"

    def refusal(
        self, authorize: Callable[[Operation, ResourceType, str, Area], bool], request: Asked
    ) -> Response | None:
        """Asks for the permission. Returns the response if it is denied, and None if not."""
        if authorize(self.operation, self.resource_type, self._name_of(request), self.area):
            return None
        return self._refuse(request, DENIALS[self.resource_type])


class CheckedByHandler:
    """The handler asks for permission itself; `description` says for which, and `area` what an
    operation on the cluster is about."""

    __slots__ = ("area", "description")

    def __init__(self, description: str, area: Area = Area.OPERATION) -> None:
        self.description = description
        self.area = area


class OpenToAll:
    """Every client may send the request, because of `reason`."""

    __slots__ = ("description",)

    def __init__(self, reason: str) -> None:
        self.description = f"none: {reason}"


Permission = Required[Any] | CheckedByHandler | OpenToAll


def required_on_cluster(
    operation: Operation,
    refuse: Callable[[AnyRequest, ErrorCode], Response],
    area: Area = Area.OPERATION,
) -> Required[AnyRequest]:
    return Required(operation, ResourceType.CLUSTER, lambda _: CLUSTER_NAME, refuse, area)


def required_on_group(
    operation: Operation, refuse: Callable[[AnyGroupRequest, ErrorCode], Response]
) -> Required[AnyGroupRequest]:
    """The resource is the group that the request names in `group_id`."""
    return Required(operation, ResourceType.GROUP, lambda request: request.group_id, refuse)
