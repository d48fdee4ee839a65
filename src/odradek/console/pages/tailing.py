"""Live tails: pages that show the new records of a topic as they are written.

A tail reads a topic from the ends of its partitions on. It sends at most `_MAX_PER_S` records a
second to the browser, because nobody can read more, and the number of records that it left out. If
its lag grows beyond `_MAX_LAG_RECORDS`, it skips to the end of the partition.
"""

import asyncio
from typing import Any, Final

import msgspec

from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.console.asking import PageRequest
from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import BadExpression, Filter
from odradek.console.records.reading import MAX_POLLED, RecordView, view_of
from odradek.console.rendering import iso
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.problems import Problem
from odradek.web.streaming import event
from odradek.world.timeslice import Timeslice

_MAX_TAILS: Final = 8
_MAX_OPEN: Final = 100
"""How many tails a user may have open: each is a consumer with its own connections."""
_MAX_PER_S: Final = 40
_POLL_MS: Final = 500
_MAX_POLL_RECORDS: Final = 500
_MAX_LAG_RECORDS: Final = 5000


async def tails_of(asked: PageRequest) -> list["Tail"]:
    """Returns the tails that the query of a request names, as `topic` or `topic?filter`.

    Each tail already is at the ends of its partitions. So records that are written after the
    response has begun are not missed.
    """
    names = list(dict.fromkeys(asked.query.many("tail")))[:_MAX_TAILS]
    tails: list[Tail] = []
    try:
        for name in names:
            if _count_of(asked) >= _MAX_OPEN:
                raise Problem(503, f"{_MAX_OPEN} live tails are open already; close some pages")
            topic, _, filter_text = name.partition("?")
            tail = await _opened(asked, name, topic, filter_text)
            asked.cluster.tails[tail] = asked.log_in.caller
            tails.append(tail)
    except BaseException:
        for tail in tails:
            await tail.close()
        raise
    return tails


def _count_of(asked: PageRequest) -> int:
    """Returns how many tails the user has open."""
    caller = asked.log_in.caller
    return sum(one == caller and not tail.is_closed for tail, one in asked.cluster.tails.items())


async def _opened(asked: PageRequest, name: str, topic: str, filter_text: str) -> "Tail":
    described = await asked.topic(topic)
    try:
        wanted = Filter(filter_text) if filter_text else None
    except BadExpression as error:
        raise Problem(400, str(error)) from None
    properties = asked.clients.properties("consumer")
    properties.pop("group.id", None)
    # Pages read only what is there. A tail waits for new records.
    waits = {"fetch.max.wait.ms": _POLL_MS, "auto.offset.reset": "latest"}
    consumer = Consumer({**properties, **waits})
    partitions = [
        TopicPartition(topic, index)
        for index, partition in described.partitions.items()
        if partition.leader >= 0
    ]
    masks = asked.cluster.masks(topic)
    decoder = Decoder(asked.cluster.formats.of(asked.clients), masks, {})
    try:
        if partitions:
            consumer.assign(partitions)
            for partition, end in (await consumer.end_offsets(partitions)).items():
                consumer.seek(partition, end)
    except BaseException:
        await consumer.close(0)
        raise
    return Tail(name, consumer, partitions, decoder, wanted)


class Tail:
    """One tail of one browser. `name` is the browser's name for it, as in `tails_of`."""

    def __init__(
        self,
        name: str,
        consumer: Consumer,
        partitions: list[TopicPartition],
        decoder: Decoder,
        wanted: Filter | None,
    ) -> None:
        self._name = name
        self._consumer = consumer
        self._partitions = partitions
        self._decoder = decoder
        self._wanted = wanted
        self.is_closed = False

    async def run(self, queue: "asyncio.Queue[bytes]") -> None:
        """Puts events into the queue until it is cancelled. An error of the brokers is the last
        event."""
        try:
            while self._partitions:
                began_s = asyncio.get_running_loop().time()
                records, dropped = await self._next()
                if records or dropped:
                    await queue.put(self._event(records, dropped))
                    passed_s = asyncio.get_running_loop().time() - began_s
                    await asyncio.sleep(max(0.0, len(records) / _MAX_PER_S - passed_s))
        except (ClientError, KafkaError, OSError) as error:
            await queue.put(self._event([], 0, str(error)))
        finally:
            await self.close()

    async def close(self) -> None:
        self.is_closed = True
        await self._consumer.close(0)

    async def _next(self) -> tuple[list[RecordView], int]:
        """Returns the next records, and how many were left out."""
        views: list[RecordView] = []
        seen = matching = 0
        timeslice = Timeslice.of_running_loop()
        polled = await self._consumer.poll(_POLL_MS, MAX_POLLED)
        while polled:
            for record in (record for records in polled.values() for record in records):
                await timeslice.pause()
                seen += 1
                # Without a filter, records that will not be sent need not be decoded.
                if self._wanted is None and seen > _MAX_PER_S:
                    matching += 1
                    continue
                view = await view_of(record, self._decoder)
                if self._wanted is None or self._wanted.matches(view.names()):
                    matching += 1
                    if len(views) < _MAX_PER_S:
                        views.append(view.short())
            if seen >= _MAX_POLL_RECORDS:
                break
            polled = await self._consumer.poll(0, MAX_POLLED)
        return views, matching - len(views) + await self._catch_up()

    async def _catch_up(self) -> int:
        """Skips to the end of partitions with a large lag; returns how many records it skips."""
        skipped = 0
        for partition in self._partitions:
            behind = self._consumer.lag(partition) or 0
            if behind > _MAX_LAG_RECORDS:
                end = await self._consumer.position(partition) + behind
                self._consumer.seek(partition, end)
                skipped += behind
        return skipped

    def _event(self, records: list[RecordView], dropped: int, problem: str = "") -> bytes:
        content = {
            "tail": self._name,
            "records": [_json(view) for view in records],
            "dropped": dropped,
            "problem": problem,
        }
        return event(msgspec.json.encode(content), name="records")


def _json(view: RecordView) -> dict[str, Any]:
    return {
        "partition": view.partition,
        "offset": view.offset,
        "time": iso(view.timestamp_ms),
        "key": view.key.preview,
        "value": view.value.preview,
        "size": view.size,
    }
