"""Notifications that another service formats: applications say what happened, not how it is told.

Applications write short events to the topic `notifications`: who is to be told, and what happened.
The formatting service reads them, asks the compacted topic `users` how this user wants to be told,
and writes the finished text to `outbox.email` or `outbox.sms`. Whoever sends e-mails reads the
outbox, and knows nothing of orders. An event that cannot be formatted goes to `notifications.dead`
with the reason, and the ones after it do not wait.

The service reads, writes and commits in transactions, so each event is told once, even though the
recipe kills the service in the middle.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from odradek.client import Consumer, ConsumerRecord, Producer, TopicPartition
from odradek.testing import Cluster

_EVENTS: Final = "notifications"
_USERS: Final = "users"
_DEAD: Final = "notifications.dead"
_OUTBOXES: Final = ("outbox.email", "outbox.sms")
_TEMPLATES: Final = {
    "shipped": "Dear {name}, your {item} is on its way.",
    "liked": "{name}: {by} likes your picture.",
}
_PEOPLE: Final[dict[str, dict[str, str]]] = {
    "1": {"name": "Ada", "by": "email"},
    "2": {"name": "Grace", "by": "sms"},
}
# The offset of the event at which the recipe kills the service.
_KILLED_AT: Final = 4


class Killed(Exception):
    """Stands for kill -9: the transaction that is open is never committed."""


async def run(print_line: Callable[[str], None]) -> None:
    async with Cluster() as brokers:
        for topic in (_EVENTS, _DEAD, *_OUTBOXES):
            await brokers.create_topic_async(topic)
        await brokers.create_topic_async(_USERS, config={"cleanup.policy": "compact"})
        events = await _applications_work(brokers.bootstrap)
        print_line(f"{events} events wait in topic {_EVENTS}; who wants what is in topic {_USERS}")
        try:
            await format_events(brokers.bootstrap, events, killed_at=_KILLED_AT)
        except Killed:
            print_line("the formatting service is killed: a text is written, but not committed")
        await format_events(brokers.bootstrap, events)
        print_line("it was started again, and read on where it had committed; this was told:")
        told = 0
        for topic in (*_OUTBOXES, _DEAD):
            async for record in _all_records(brokers.bootstrap, topic):
                told += 1
                print_line(f"  {topic:<18} {record.value.decode()}")
        assert told == events, "each event is told once, or set aside once"
        print_line(f"{events} events, {told} texts: none is missing, none is there twice")


async def _applications_work(bootstrap: str) -> int:
    """The shop and the gallery write events, and users choose how they want to be told."""
    events: list[tuple[str, dict[str, str]]] = [
        ("1", {"event": "shipped", "item": "mug"}),
        ("2", {"event": "liked", "by": "Barbara"}),
        ("2", {"event": "exploded"}),
        ("9", {"event": "shipped", "item": "T-shirt"}),
        ("1", {"event": "liked", "by": "Grace"}),
        ("2", {"event": "shipped", "item": "poster"}),
    ]
    async with Producer(bootstrap_servers=bootstrap, value_serializer=_as_json) as producer:
        for user, settings in _PEOPLE.items():
            await producer.send(_USERS, settings, key=user.encode())
        for user, event in events:
            await producer.send(_EVENTS, event, key=user.encode())
    return len(events)


async def format_events(bootstrap: str, until: int, killed_at: int | None = None) -> None:
    """The formatting service. It would run for ever; here it ends at the offset `until`."""
    async with (
        Consumer(
            _EVENTS,
            bootstrap_servers=bootstrap,
            group_id="formatting",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id="formatting-1") as producer,
    ):
        await producer.init_transactions()
        async for record in consumer:
            topic, text = await _format(consumer, record)
            async with producer.transaction():
                await producer.send(topic, text.encode(), key=record.key)
                await producer.flush()
                if record.offset == killed_at:
                    raise Killed
                offsets = {TopicPartition(_EVENTS, record.partition): record.offset + 1}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if record.offset + 1 == until:
                return


async def _format(consumer: Consumer, record: ConsumerRecord) -> tuple[str, str]:
    """Returns the outbox and the text, or the topic for dead letters and the reason."""
    event: Mapping[str, str] = json.loads(record.value)
    found = await consumer.get(_USERS, record.key)
    if found is None or found.value is None:
        return _DEAD, f"no user {record.key.decode()}: {event}"
    user = json.loads(found.value)
    template = _TEMPLATES.get(event["event"])
    if template is None:
        return _DEAD, f"no text for {event['event']!r}: {event}"
    return f"outbox.{user['by']}", template.format(**{**event, "name": user["name"]})


async def _all_records(bootstrap: str, topic: str) -> AsyncIterator[ConsumerRecord]:
    async with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                for record in records:
                    yield record


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def main() -> None:
    asyncio.run(run(print))


if __name__ == "__main__":
    main()
