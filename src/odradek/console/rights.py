"""What a user may do where a service beside the brokers would do it with rights of its own.

The brokers decide about everything that the console asks them. A Connect worker, a SQL server or a
process on this machine does not know who asks, so here the brokers are asked first what the user
may do there, and a permission of Kafka stands for the service.
"""

import base64
from typing import Final

from odradek.console.asking import PageRequest
from odradek.protocol.acls import Operation
from odradek.protocol.errors import raise_for
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.services.identity import Kind, authorization_of
from odradek.services.permissions import may_write
from odradek.web.problems import Problem

_NOT_SAID: Final = -(2**31)


def authorization(asked: PageRequest, own: str) -> str:
    """Returns what a service that wants a log-in is shown: the console's own, as `user:password`,
    or else that of the user. A delegation token (KIP-48) is understood by Odradek's services."""
    if own:
        return f"Basic {base64.b64encode(own.encode()).decode()}"
    return authorization_of(asked.log_in.caller)


def named(asked: PageRequest, words: str) -> str:
    """Returns the words of a service with the name of the user. A service knows who shows it a
    delegation token by the id of the token, which says nothing to people."""
    caller = asked.log_in.caller
    if caller.kind is not Kind.DELEGATION_TOKEN:
        return words
    return words.replace(caller.name, asked.log_in.name)


async def require_write(asked: PageRequest, topic: str, what: str) -> None:
    """Raises a `Problem` if the user may not write to a topic. `what` begins a sentence."""
    if asked.cluster.needs_log_in and not await may_write(asked.clients, [topic]):
        raise Problem(403, f"{asked.log_in.name} {what}: it needs WRITE on topic {topic}")


async def require_on_cluster(asked: PageRequest, operation: Operation, what: str) -> None:
    """Raises a `Problem` if the user may not do an operation on the cluster."""
    if asked.cluster.needs_log_in and operation not in await operations_on_cluster(asked):
        name = operation.display_name.upper()
        raise Problem(403, f"{asked.log_in.name} {what}: it needs {name} on the cluster")


async def operations_on_cluster(asked: PageRequest) -> frozenset[Operation]:
    """Returns what the user may do with the cluster, as the brokers say."""
    response = await asked.admin.request(
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        DescribeClusterResponse,
    )
    raise_for(response.error_code, response.error_message)
    bits = response.cluster_authorized_operations
    if bits == _NOT_SAID:
        return frozenset()
    return frozenset(operation for operation in Operation if bits >> operation & 1)
