"""ExplainAccess: whether a principal may do an operation on a resource, which rule or role decides,
and what would have to be added. This API is Odradek's own; Kafka has none like it."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class ExplainAccessRequest(Request):
    principal: str = string()
    # The groups that the principal is in, as in Group:shop.
    groups: list[str] = array(string)
    host: str = string(default="*")
    operation: int = int8()
    resource_type: int = int8()
    resource_name: str = string()


class ExplainedRule(Struct):
    """An ACL; or what a role permits, if `role` is not null."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()
    role: str | None = string(nullable="0+", default=None)
    # Whether the rule is about this principal, host and operation, and why.
    counts: bool = boolean()
    remark: str = string()


class ExplainAccessResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    is_allowed: bool = boolean()
    # What decides, in a word: super-user, denied-by-acl, allowed-by-acl, allowed-by-role,
    # open-without-rules, closed-without-rules, no-rule-allows, other-authorizer, no-authorizer.
    cause: str = string()
    # The same as a sentence.
    reason: str = string()
    # Every rule about the resource, those that count first.
    rules: list[ExplainedRule] = array(ExplainedRule)
    # Rules of which each alone would allow it.
    missing: list[ExplainedRule] = array(ExplainedRule)
    # Rules that deny it, and would have to be removed.
    in_the_way: list[ExplainedRule] = array(ExplainedRule)


API: Final = Api(25_022, ExplainAccessRequest, ExplainAccessResponse, flexible_from=0)
