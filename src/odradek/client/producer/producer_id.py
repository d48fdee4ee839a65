"""Asks any broker for the producer id of an idempotent producer without transactions."""

from odradek.client.cluster import Cluster
from odradek.protocol.errors import raise_for
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

# Without a transactional id there is no transaction that could take too long.
_MAX_TRANSACTION_MS = 2_147_483_647


async def ask_for_producer_id(cluster: Cluster) -> tuple[int, int]:
    """Returns a new producer id and its epoch; raises an error that is not retriable."""

    async def ask() -> tuple[int, int]:
        connection = await cluster.any_connection()
        response = await connection.request(
            InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=_MAX_TRANSACTION_MS
            ),
            InitProducerIdResponse,
        )
        raise_for(response.error_code)
        return response.producer_id, response.producer_epoch

    return await cluster.retry.run(ask)
