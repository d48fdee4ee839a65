"""Asks the cluster for a producer id, until it has one or is refused."""

import asyncio

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, is_retriable
from odradek.protocol.errors import KafkaError, raise_for
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

# Without a transactional id there is no transaction that could take too long.
_MAX_TRANSACTION_MS = 2_147_483_647


async def ask_for_producer_id(cluster: Cluster) -> tuple[int, int]:
    """A new producer id and its epoch; raises what asking again does not cure."""
    failures = 0
    while True:
        try:
            connection = await cluster.any_connection()
            response = await connection.request(
                InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=_MAX_TRANSACTION_MS
                ),
                InitProducerIdResponse,
            )
            raise_for(response.error_code)
        except (ClientError, KafkaError) as error:
            if not is_retriable(error):
                raise
        else:
            return response.producer_id, response.producer_epoch
        failures += 1
        await asyncio.sleep(cluster.retry_backoff.delay_s(failures))
