"""Asks any broker for the producer id of an idempotent producer without transactions."""

from odradek.client.cluster import Cluster
from odradek.protocol.errors import raise_for
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId

# The request needs a value, but brokers ignore it without a transactional id. Kafka's producer
# sends the largest integer too.
_MAX_INT = 2_147_483_647


async def ask_for_producer_id(cluster: Cluster) -> tuple[ProducerId, ProducerEpoch]:
    """Returns a new producer id and its epoch. Retries retriable errors and raises others."""

    async def ask() -> tuple[ProducerId, ProducerEpoch]:
        connection = await cluster.any_connection()
        response = await connection.request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_MAX_INT),
            InitProducerIdResponse,
        )
        raise_for(response.error_code)
        return response.producer_id, response.producer_epoch

    return await cluster.retry.run(ask)
