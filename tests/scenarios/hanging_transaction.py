"""Leaves a transaction open that no coordinator knows of, as a bug or a lost coordinator would.

The broker must run with `transaction.partition.verification.enable=false`: else it asks the
coordinator before it takes such a batch, which is what keeps transactions from hanging today.
"""

from odradek.client.connection import Connection
from odradek.protocol.compression import Codec
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder

PRODUCER_ID = 777_777


async def leave_hanging(bootstrap: str, topic: str, timestamp_ms: int) -> None:
    """A transactional batch that no coordinator knows of: version 11 does not ask one."""
    host, _, port = bootstrap.partition(":")
    builder = BatchBuilder(Codec.NONE)
    builder.append(None, b"hangs", (), timestamp_ms)
    batch = builder.build(0, PRODUCER_ID, 0, 0, is_transactional=True)
    connection = await Connection.open(host, int(port), client_id="test")
    try:
        response = await connection.request(
            ProduceRequest(
                transactional_id="forgotten",
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    TopicProduceData(
                        name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
                    )
                ],
            ),
            ProduceResponse,
            max_version=11,
        )
        assert response.responses[0].partition_responses[0].error_code == 0
    finally:
        connection.close()
        await connection.wait_closed()
