"""Sends the records of a request with the producer of the caller.

An error of one record does not hide the others: each record has its own outcome, in the order of
the request. `send` hands a record over and returns at once if there is room in the buffer, so the
records of a request travel together.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from odradek.client.errors import ClientError, MetadataTimedOut
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import KafkaError
from odradek.services.kafka_problems import (
    BAD_REQUEST,
    PARTITION_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
    explain,
)
from odradek.web.problems import Problem

MAX_TOPIC_NAME: Final = 249
Outcome = RecordMetadata | Problem
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Headers | None = None
    timestamp_ms: int | None = None


class Sending:
    """A record on its way."""

    __slots__ = ("_problem", "delivery")

    def __init__(
        self,
        delivery: "asyncio.Future[RecordMetadata] | None" = None,
        problem: Problem | None = None,
    ) -> None:
        self.delivery = delivery
        self._problem = problem

    async def outcome(self) -> Outcome:
        """Returns where the record was written, or why it was not."""
        if self.delivery is None:
            assert self._problem is not None
            return self._problem
        try:
            return await self.delivery
        except (KafkaError, ClientError) as error:
            return problem_of(error)

    @property
    def is_settled(self) -> bool:
        return self.delivery is None or self.delivery.done()


async def send(producer: Producer, topic: str, record: Outgoing) -> Sending:
    """Hands a record to the producer. It waits only while the buffer is full."""
    try:
        delivery = await producer.send(
            topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers or (),
            timestamp_ms=record.timestamp_ms,
        )
    except MetadataTimedOut:
        return Sending(
            problem=Problem(
                404, f"there is no topic {topic}, and brokers did not create it",
                code=UNKNOWN_TOPIC_OR_PARTITION,
            )
        )  # fmt: skip
    except (KafkaError, ClientError) as error:
        return Sending(problem=problem_of(error))
    except ValueError as error:
        # The client judges arguments before it asks: a partition or time that cannot be.
        code = PARTITION_NOT_FOUND if "partition" in str(error) else BAD_REQUEST
        status = 404 if code == PARTITION_NOT_FOUND else 400
        return Sending(problem=Problem(status, str(error), code=code))
    return Sending(delivery)


def problem_of(error: Exception) -> Problem:
    return explain(error) or Problem(500, "an unexpected error; the log of the service has it")


def require_topic_name(name: str) -> str:
    """Returns a name that a topic can have; the client would take others for mistakes of its own
    program."""
    if not 0 < len(name) <= MAX_TOPIC_NAME or not name.isascii():
        raise Problem(404, f"there is no topic {name[:300]!r}", code=UNKNOWN_TOPIC_OR_PARTITION)
    return name
