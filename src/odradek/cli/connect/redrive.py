"""`odradek connect dlq redrive NAME`: writes dead letters back to the topics that they are from.

It reads the dead-letter topic up to the end that it has now, and writes each record with its key,
value and headers, without those that say why it failed. Records and progress are written in one
transaction, so a record that was written back is not written again, also if the command is killed
or called twice. Progress is that of the group `connect-dlq-redrive-NAME`.

The header `odradek.redriven` counts how often a record has come back; a sink that still refuses it
sends it to the dead letters again.
"""

import argparse
import asyncio
from typing import Any, Final, NamedTuple

from odradek.cli.connect.worker_client import client_of, path_of
from odradek.client import Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json
from odradek.wording import counted

_CONTEXT: Final = "__connect.errors."
_TOPIC: Final = f"{_CONTEXT}topic"
_COUNT: Final = "odradek.redriven"
_POLL_MS: Final = 1_000
_SETTING: Final = "errors.deadletterqueue.topic.name"


class _Letter(NamedTuple):
    topic: str | None
    headers: list[tuple[str, bytes | None]]


def redrive(arguments: argparse.Namespace) -> int:
    name = arguments.words[1]
    letters = arguments.topic or _topic_of(arguments, name)
    written = asyncio.run(_redrive(arguments, name, letters))
    if arguments.json:
        print_json({"connector": name, "from": letters, "written": written})
    else:
        print(f"{counted(written, 'record')} of {letters} went back")
    return 0


def _topic_of(arguments: argparse.Namespace, name: str) -> str:
    config = client_of(arguments).ask("GET", path_of(name, "config"))
    topic = config.get(_SETTING)
    if not topic:
        raise CommandFailed(f"{name} has no dead-letter topic ({_SETTING}); name it with --topic")
    return str(topic)


async def _redrive(arguments: argparse.Namespace, name: str, letters: str) -> int:
    group = f"connect-dlq-redrive-{name}"
    own = {"group.id": group, "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    reading = {**client_properties(arguments), **own, "isolation.level": "read_committed"}
    writing = {**client_properties(arguments), "transactional.id": group}
    written = 0
    async with Consumer(reading) as consumer, Producer(writing) as producer:
        await producer.init_transactions()
        tps = [TopicPartition(letters, at) for at in await consumer.partitions_for(letters)]
        ends = await consumer.end_offsets(tps)
        consumer.assign(tps)
        for tp, committed in (await consumer.committed(tps)).items():
            if committed is not None:
                consumer.seek(tp, committed.offset)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            written += await _move(arguments, consumer, producer, ends, group)
    return written


async def _move(
    arguments: argparse.Namespace,
    consumer: Consumer,
    producer: Producer,
    ends: Any,
    group: str,
) -> int:
    """Moves what one poll returns, in one transaction."""
    polled = await consumer.poll(timeout_ms=_POLL_MS)
    records = [
        record for tp, found in polled.items() for record in found if record.offset < ends[tp]
    ]
    if not records:
        return 0
    async with producer.transaction():
        for record in records:
            letter = _letter(record)
            topic = arguments.to or letter.topic
            if topic is None:
                raise CommandFailed(
                    f"the record at offset {record.offset} of {record.topic} does not say where it"
                    " is from (errors.deadletterqueue.context.headers.enable=true makes a sink say"
                    " it); name a topic with --to"
                )
            await producer.send(
                topic, record.value, record.key,
                headers=letter.headers, timestamp_ms=record.timestamp_ms,
            )  # fmt: skip
        offsets = {
            TopicPartition(record.topic, record.partition): record.offset + 1 for record in records
        }
        await producer.send_offsets_to_transaction(offsets, group)
    return len(records)


def _letter(record: Any) -> _Letter:
    topic, count = None, 0
    headers: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        if name == _TOPIC:
            topic = (value or b"").decode("utf-8", "replace")
        elif name == _COUNT and (value or b"").isdigit():
            count = int(value)
        elif not name.startswith(_CONTEXT):
            headers.append((name, value))
    return _Letter(topic, [*headers, (_COUNT, str(count + 1).encode())])
