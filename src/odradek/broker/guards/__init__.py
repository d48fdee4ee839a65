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
from odradek.protocol.apis import ApiKey
from odradek.protocol.schema import Request, Response

Amend = Callable[[Response], Response]
Verdict = Response | Amend | None
Guard = Callable[[Access, int, Request], Verdict]
Reply = Response | Encoded | None
Handle = Callable[[Services, RequestContext, Request], Reply | Awaitable[Reply] | Pipelined]

OPEN: Final = frozenset({ApiKey.API_VERSIONS})

_TABLE: Final[dict[str, tuple[ApiKey, ...]]] = {
    "topics": (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LOOK_UP,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
    ),
    "metadata": (
        ApiKey.METADATA,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_CLUSTER,
    ),
    "groups": (
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DELETE_GROUPS,
    ),
    "offsets": (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
    ),
    "transactions": (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    ),
    "cluster": (
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ),
}
_MODULES: Final = {int(key): module for module, keys in _TABLE.items() for key in keys}


def guard_of(key: int) -> Guard | None:
    """None for an API that is open to all. One that is in neither list is a fault of ours, and
    must not be served."""
    if key in OPEN:
        return None
    module = import_module(f"{__name__}.{_MODULES[key]}")
    return cast("Guard", getattr(module, ApiKey(key).name.lower()))


def guarded(key: int, handle: Handle) -> Handle:
    """The handler of an API behind its guard."""
    guard = guard_of(key)
    if guard is None:
        return handle

    def handle_guarded(
        services: Services, context: RequestContext, request: Request
    ) -> Reply | Awaitable[Reply] | Pipelined:
        access = Access(services, context, key)
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
