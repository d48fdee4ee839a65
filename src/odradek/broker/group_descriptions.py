"""Results that DescribeGroups and ConsumerGroupDescribe make in the same way."""

from typing import Protocol, TypeVar

from odradek.broker.authorized_operations import GROUP_OPERATIONS
from odradek.broker.services import RequestContext
from odradek.protocol.acls import ResourceType
from odradek.protocol.errors import ErrorCode


class _DescribedGroup(Protocol):
    group_id: str
    error_code: int
    authorized_operations: int


Described_co = TypeVar("Described_co", covariant=True)


class _DescribedGroupType(Protocol[Described_co]):
    """A message class `DescribedGroup`; the two APIs have one each."""

    def __call__(self, *, group_id: str, error_code: int, error_message: str) -> Described_co: ...


def denied_group(result_type: _DescribedGroupType[Described_co], group_id: str) -> Described_co:
    """Returns the result for a group that the client may not describe."""
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return result_type(group_id=group_id, error_code=error, error_message=error.message)


def add_authorized_operations(context: RequestContext, group: _DescribedGroup) -> None:
    """Adds to a described group which operations on it the client may do (KIP-430)."""
    if group.error_code == ErrorCode.NONE:
        group.authorized_operations = context.authorized_operations(
            ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
        )
