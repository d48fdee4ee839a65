"""Offsets in your own database: results and offsets change in one transaction there.

    python examples/offsets_in_database.py localhost:9092 orders totals.sqlite

The group only shares the partitions; no offset is committed to Kafka. When a partition is
assigned, the consumer continues after the last record whose result is in the database. So each
record is counted once, also if the program dies between any two lines.
"""

import asyncio
import sqlite3
import sys

from odradek.client import Consumer, ConsumerRecord, RebalanceListener, TopicPartition

_TABLES = """
CREATE TABLE IF NOT EXISTS totals (word TEXT PRIMARY KEY, times INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, number INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, number)
);
"""


class ContinueFromDatabase(RebalanceListener):
    """Moves to the stored offsets as soon as partitions are assigned."""

    def __init__(self, consumer: Consumer, database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            row = self._database.execute(
                "SELECT next_offset FROM offsets WHERE topic = ? AND number = ?", partition
            ).fetchone()
            if row is not None:
                self._consumer.seek(partition, row[0])


def store(database: sqlite3.Connection, partition: TopicPartition, record: ConsumerRecord) -> None:
    """Counts a record and stores its offset, both or neither."""
    with database:
        database.execute(
            "INSERT INTO totals VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1",
            (record.value,),
        )
        database.execute(
            "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*partition, record.offset + 1)
        )


async def count_words(servers: str, topic: str, path: str) -> None:
    database = sqlite3.connect(path)
    database.executescript(_TABLES)
    try:
        async with Consumer(
            bootstrap_servers=servers,
            group_id=f"{topic}-totals",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            value_deserializer="string",
        ) as consumer:
            consumer.subscribe([topic], listener=ContinueFromDatabase(consumer, database))
            async for record in consumer:
                store(database, TopicPartition(record.topic, record.partition), record)
    finally:
        database.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(count_words(sys.argv[1], sys.argv[2], sys.argv[3]))
