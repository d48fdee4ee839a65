"""Asks the brokers what a caller of a service may do."""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.services.client_pool import CallerClients

_WRITE: Final = 4
_NOT_SAID: Final = -(2**31)


async def may_write(clients: CallerClients, topics: Iterable[str]) -> bool:
    """Returns whether the caller may write to one of the topics."""
    response = await clients.admin.request(
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        MetadataResponse,
    )
    return any(
        not described.error_code
        and described.topic_authorized_operations != _NOT_SAID
        and described.topic_authorized_operations >> _WRITE & 1
        for described in response.topics
    )
