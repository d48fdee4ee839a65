"""What each API needs permission for: one guard an API, before its handler and beside it.

Without an authoriser none of this is even imported, and handlers know nothing of it. A guard looks
at a request and says one of three things:

- nothing: the handler may have it;
- a response: refused altogether, the handler never hears of it;
- a function: what is not allowed has been taken out of the request, or what must not be shown
  will be taken out of the answer; the function amends the handler's response.

Every API is either in the table or named as open to all; a test sees to it.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Final, cast

from odradek.broker.guards.access import Access
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi
from odradek.protocol.schema import Request, Response

Amend = Callable[[Response], Response]
Verdict = Response | Amend | None
Guard = Callable[[Access, int, Request], Verdict]
Reply = Response | Encoded | None
Handle = Callable[[Services, RequestContext, Request], Reply | Awaitable[Reply] | Pipelined]

OPEN: Final = frozenset({"api_versions"})

_TABLE: Final[dict[str, tuple[str, ...]]] = {
    "topics": (
        "produce",
        "fetch",
        "look_up",
        "list_offsets",
        "offset_for_leader_epoch",
        "delete_records",
        "describe_producers",
        "create_topics",
        "create_partitions",
        "delete_topics",
    ),
    "metadata": (
        "metadata",
        "describe_topic_partitions",
        "describe_cluster",
    ),
    "groups": (
        "find_coordinator",
        "join_group",
        "sync_group",
        "heartbeat",
        "leave_group",
        "consumer_group_heartbeat",
        "list_groups",
        "describe_groups",
        "consumer_group_describe",
        "delete_groups",
    ),
    "offsets": (
        "offset_commit",
        "offset_fetch",
        "offset_delete",
        "txn_offset_commit",
    ),
    "transactions": (
        "init_producer_id",
        "add_partitions_to_txn",
        "add_offsets_to_txn",
        "end_txn",
        "write_txn_markers",
        "describe_transactions",
        "list_transactions",
    ),
    "configs": (
        "describe_configs",
        "alter_configs",
        "incremental_alter_configs",
        "list_config_resources",
    ),
    "cluster": (
        "describe_acls",
        "create_acls",
        "delete_acls",
        "alter_replica_log_dirs",
        "describe_log_dirs",
        "elect_leaders",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "describe_user_scram_credentials",
        "alter_user_scram_credentials",
    ),
}
_MODULES: Final = {name: module for module, names in _TABLE.items() for name in names}


def guard_of(api: AnyApi) -> Guard | None:
    """None for an API that is open to all. One that is in neither list is a fault of ours, and
    must not be served."""
    if api.module_name in OPEN:
        return None
    module = import_module(f"{__name__}.{_MODULES[api.module_name]}")
    return cast("Guard", getattr(module, api.module_name))


def guarded(api: AnyApi, handle: Handle) -> Handle:
    """The handler of an API behind its guard."""
    guard = guard_of(api)
    if guard is None:
        return handle

    def handle_guarded(
        services: Services, context: RequestContext, request: Request
    ) -> Reply | Awaitable[Reply] | Pipelined:
        access = Access(services, context, api)
        verdict = guard(access, context.version, request)
        if verdict is None:
            return handle(services, context, request)
        if isinstance(verdict, Response):
            return verdict
        return _amended(handle(services, context, request), verdict)

    return handle_guarded


def _amended(
    reply: Reply | Awaitable[Reply] | Pipelined, amend: Amend
) -> Reply | Awaitable[Reply] | Pipelined:
    if reply is None:
        return None
    if isinstance(reply, Response):
        return amend(reply)
    assert not isinstance(reply, Encoded)  # Its guard has nothing to amend.
    if isinstance(reply, Pipelined):
        return Pipelined(_amended_later(reply.response, amend))
    return _amended_later(reply, amend)


async def _amended_later(reply: Awaitable[Reply], amend: Amend) -> Response | None:
    response = await reply
    assert not isinstance(response, Encoded)  # As above.
    return None if response is None else amend(response)
