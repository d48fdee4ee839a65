"""Records that are objects of a class, with a schema in a registry.

    python examples/schemas.py localhost:9092 http://localhost:8081 orders

The serializer registers the schema of the class. When the class gets a new field with a default,
old records are still read: the default stands for what they do not have.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from odradek.client import Consumer, Producer
from odradek.schemas.serializers import (
    AvroDeserializer,
    AvroSerializer,
    AvroType,
    RegistryClient,
)


@dataclass
class Item:
    name: str
    price: Annotated[Decimal, AvroType.decimal(10, 2)]


@dataclass
class Order:
    customer: str
    placed: datetime
    items: list[Item] = field(default_factory=list)
    note: str | None = None


async def send(bootstrap: str, registry: RegistryClient, topic: str, orders: list[Order]) -> None:
    async with Producer(
        bootstrap_servers=bootstrap, value_serializer=AvroSerializer(registry, Order)
    ) as producer:
        for order in orders:
            await producer.send(topic, order, key=order.customer.encode())


async def read(bootstrap: str, registry: RegistryClient, topic: str, count: int) -> list[Order]:
    found: list[Order] = []
    async with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(registry, record_class=Order),
    ) as consumer:
        consumer.assign([(topic, number) for number in await consumer.partitions_for(topic)])
        async for record in consumer:
            found.append(record.value)
            if len(found) == count:
                break
    return found


async def main(bootstrap: str, url: str, topic: str) -> list[Order]:
    with RegistryClient(url) as registry:
        order = Order("ada", datetime.now(UTC), [Item("pen", Decimal("2.50"))])
        await send(bootstrap, registry, topic, [order])
        return await read(bootstrap, registry, topic, 1)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)  # which shows how to call it
    print(asyncio.run(main(*sys.argv[1:])))
