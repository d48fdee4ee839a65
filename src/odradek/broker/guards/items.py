"""The two shapes that most guards have: all or nothing, and each item for itself."""

from collections.abc import Callable
from typing import TypeVar

from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.schema import Request, Response, Struct

Item = TypeVar("Item")
Asked = TypeVar("Asked", bound=Request)


def on_cluster(
    operation: Operation, refuse: Callable[[Asked], Response]
) -> Callable[[Access, int, Asked], Verdict]:
    """The whole request needs an operation on the cluster."""

    def guard(access: Access, version: int, request: Asked) -> Verdict:
        return None if access.may_on_cluster(operation) else refuse(request)

    return guard


def each(
    operation: Operation,
    kind: ResourceType,
    name_of: Callable[[Item], str],
    refuse: Callable[[Item], Struct],
    *,
    asked: str,
    answered: str,
    response: type[Response],
) -> Callable[[Access, int, Request], Verdict]:
    """Each item of the field `asked` needs the operation on what it names. Those without are
    answered by `refuse` in the field `answered`; the handler gets the others, if there are."""

    def guard(access: Access, version: int, request: Request) -> Verdict:
        allowed: list[Item] = []
        refusals: list[Struct] = []
        for item in getattr(request, asked):
            if access.may(operation, kind, name_of(item)):
                allowed.append(item)
            else:
                refusals.append(refuse(item))
        return split(request, allowed, refusals, asked=asked, answered=answered, response=response)

    return guard


def split(
    request: Request,
    allowed: list[Item],
    refusals: list[Struct],
    *,
    asked: str,
    answered: str,
    response: type[Response],
) -> Verdict:
    """Lets the handler have what is allowed and adds the refusals to its answer."""
    if not refusals:
        return None
    if not allowed:
        whole = response()
        setattr(whole, answered, refusals)
        return whole
    setattr(request, asked, allowed)

    def add(reply: Response) -> Response:
        getattr(reply, answered).extend(refusals)
        return reply

    return add
