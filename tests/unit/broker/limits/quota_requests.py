"""Requests about quotas, and loads that are measured, for the tests of this folder."""

import asyncio

from odradek.client.connection import Connection
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.harness import PORT, Client, batch

Parts = dict[str, str | None]


async def alter(
    client: Client, parts: Parts, *, validate_only: bool = False, **quotas: float | None
) -> tuple[int, str | None]:
    """Sets quotas, or removes those that are None; returns the error."""
    response = await client.ask(
        AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name)
                        for kind, name in parts.items()
                    ],
                    ops=[
                        OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in quotas.items()
                    ],
                )
            ],
            validate_only=validate_only,
        ),
        AlterClientQuotasResponse,
    )
    (entry,) = response.entries
    return entry.error_code, entry.error_message


async def described(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Parts, dict[str, float]]]:
    response = await client.ask(
        DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=match_type, match=match)
                for kind, match_type, match in components
            ],
            strict=strict,
        ),
        DescribeClientQuotasResponse,
    )
    assert response.error_code == 0, response.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or []
    ]


async def client_named(client_id: str) -> Client:
    """Opens a connection with a client id."""
    return Client(await Connection.open("broker", PORT, client_id=client_id))


def records(size: int, *, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=0, records=batch(bytes(size)))],
            )
        ],
    )


async def send(client: Client, size: int) -> int:
    """Produces a record; returns the throttle time in milliseconds."""
    response = await client.ask(records(size), ProduceResponse, version=9)
    assert response.responses[0].partition_responses[0].error_code == 0
    return response.throttle_time_ms


async def produce_for(client: Client, duration_s: float, size: int) -> float:
    """Produces as fast as the broker lets it; returns bytes a second."""
    loop = asyncio.get_running_loop()
    begin_s, sent = loop.time(), 0
    while loop.time() < begin_s + duration_s:
        await send(client, size)
        sent += size
    return sent / (loop.time() - begin_s)
