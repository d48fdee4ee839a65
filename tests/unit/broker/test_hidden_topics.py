"""Random requests of all APIs and versions, with random permissions.

The broker answers each of them or closes the connection, and never fails unexpectedly (the
simulation would end with an error). No response names a topic on which everything is denied, even
if the request has its id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from zlib import crc32

import pytest

from odradek.broker.handlers import served_apis
from odradek.client.errors import ConnectionClosed
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.layout import Field, StructType
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Request, Response, Struct
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.security.authorizer import Authorizer
from odradek.security.principals import Principal
from tests.unit.broker.harness import Client, batch, with_broker
from tests.unit.broker.test_every_api import TELEMETRY

Connect = Callable[[], Awaitable[Client]]

NAMES = [f"seen-{number}" for number in range(4)]
HIDDEN = [f"hidden-{number}" for number in range(3)]
REQUESTS_A_RUN = 80
CHOICES = {
    "acks": [-1, 0, 1],
    "resource_type": [2, 4, 8, 32],
    "key_type": [0, 1, 2],
    "timeout_ms": [0, 100],
    "max_wait_ms": [0, 100],
    "session_timeout_ms": [6_000],
    "rebalance_timeout_ms": [100],
    "replication_factor": [1],
}


class Dice(Authorizer):
    """Denies everything on hidden topics, and what `seed` says on other resources."""

    seed: int | None = None

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if self.seed is None:
            return True
        if kind in (ResourceType.TOPIC, ResourceType.CLUSTER) and name not in NAMES:
            return False  # Who may describe the cluster sees the replicas of all topics.
        action = f"{self.seed} {operation.name} {kind.name} {name}"
        return crc32(action.encode()) % 3 > 0


class Maker:
    """Makes requests whose fields have plausible values."""

    def __init__(self, random: Random, topic_ids: list[TopicId]) -> None:
        self.random = random
        self.topic_ids = topic_ids

    def struct(self, layout: StructType, version: int) -> object:
        values = {
            field.name: self.value(field, version)
            for field in layout.fields
            if version in field.versions or version in field.tagged
        }
        return layout(**values)

    def value(self, field: Field, version: int) -> object:
        if version in field.nullable and self.random.random() < 0.15:
            return None
        element = field.element
        if field.kind == "array":
            count = self.random.randrange(4)
            if isinstance(element, StructType):
                return [self.struct(element, version) for _ in range(count)]
            return [self.plain(str(element), field.name) for _ in range(count)]
        if isinstance(element, StructType):
            return self.struct(element, version)
        return self.plain(field.kind, field.name)

    def plain(self, kind: str, name: str) -> object:
        random = self.random
        made: dict[str, Callable[[], object]] = {
            "string": lambda: random.choice([*NAMES, "unknown"]),
            "uuid": lambda: random.choice([*self.topic_ids, NO_TOPIC_ID]),
            "boolean": lambda: random.random() < 0.5,
            "records": lambda: batch(b"value"),
            "bytes": lambda: b"bytes",
            "float64": lambda: 1.0,
        }
        if kind in made:
            return made[kind]()
        return random.choice(CHOICES.get(name, [0, 0, 1, 2, -1]))


def texts(message: object) -> Iterator[str]:
    """Yields every text anywhere in a response."""
    if isinstance(message, list):
        for item in message:
            yield from texts(item)
    elif isinstance(message, Struct):
        for field in type(message).fields:
            yield from texts(getattr(message, field.name))
    elif isinstance(message, str):
        yield message


async def answer(
    client: Client, request: Request, expected: type[Response], version: int
) -> object:
    """Returns the response, or None if there is none: the request was closed, refused or acks=0."""
    try:
        return await asyncio.wait_for(client.ask(request, expected, version=version), 10)
    except (ConnectionClosed, TimeoutError):
        return None


@pytest.mark.parametrize("seed", range(12))
def test_no_response_names_a_hidden_topic(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dice, "seed", None)

    async def test(connect: Connect) -> None:
        client = await connect()
        for name in (*NAMES[:-1], *HIDDEN):
            await client.create_topic(name, partitions=2)
        everything = await client.ask(MetadataRequest(topics=None), MetadataResponse)
        topic_ids = [topic.topic_id for topic in everything.topics]
        monkeypatch.setattr(Dice, "seed", seed)
        random = Random(seed)
        maker = Maker(random, topic_ids)
        answered = 0
        # A broker that has no place for metrics of clients does not take them.
        apis = [api for key, api in served_apis().items() if key not in TELEMETRY]
        for _ in range(REQUESTS_A_RUN):
            api = random.choice(apis)
            version = random.randint(api.min_version, api.max_version)
            request = maker.struct(api.request, version)
            assert isinstance(request, Request)
            response = await answer(client, request, api.response, version)
            if response is None:
                client = await connect()
                continue
            answered += 1
            named = {text for text in texts(response) if any(name in text for name in HIDDEN)}
            assert not named, (request, response)
        assert answered > REQUESTS_A_RUN / 2

    with_broker(test, authorizer_class_name=f"{__name__}:Dice")
