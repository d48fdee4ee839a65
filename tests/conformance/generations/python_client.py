"""What one generation of a Python client lives through, told line by line on standard output.

    python python_client.py confluent|kafka-python|aiokafka BOOTSTRAP NAME

The first line is the version that runs. Then each line is a step and its outcome: `create ok`,
`produce ok none gzip`, `transaction absent` for what this generation does not have, `group error
WHY`. NAME makes topics and groups unique. The steps are those of `tests/java/GenerationStory.java`;
`matrix.py` runs both. It imports nothing of ours: it runs where only that library is.
"""

import asyncio
import sys
import time
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
PATIENCE_S = 60.0


class Absent(Exception):
    """This generation does not have what a step needs."""


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise RuntimeError(f"{found!r} in place of {wanted!r}")


def within() -> Any:
    """Yields until the patience is over, then raises."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        yield
    raise RuntimeError(f"took longer than {PATIENCE_S} s")


def tell(step: str, action: Any) -> None:
    try:
        more = action()
    except Absent:
        outcome = "absent"
    except Exception as error:  # noqa: BLE001 - whatever it was, the table must show it
        outcome = f"error {type(error).__name__}: {error}".replace("\n", " ")
    else:
        outcome = f"ok {more}" if more else "ok"
    print(step, outcome, flush=True)


class Story:
    """The steps. `write` sends values to partition 0 and returns when they are acknowledged; `read`
    reads that many from the beginning; the other verbs are those of the library."""

    codecs = CODECS

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"{name}-topic"
        self.group = f"{name}-group"
        self.transactional_id = f"{name}-transaction"
        self.written: list[str] = []

    def version(self) -> str:
        """Of the library that really runs."""
        raise NotImplementedError

    def tell(self) -> None:
        print("version", self.version(), flush=True)
        tell("create", self.create)
        tell("describe", self.describe)
        tell("produce", self.produce)
        tell("consume", self.consume)
        tell("group", self.share)
        tell("group-848", self.share_by_broker)
        tell("transaction", self.transact)
        tell("delete", self.delete)

    def produce(self) -> str:
        for acks in ACKS:
            self.send(f"acks {acks}", acks=acks, codec="none")
            # Nobody is told when a record without acknowledgement is written, and the next
            # producer has a connection of its own.
            self.consume()
        for codec in self.codecs:
            self.send(f"codec {codec}", acks="all", codec=codec)
        return " ".join(self.codecs)

    def send(self, text: str, *, acks: str, codec: str) -> None:
        values = [f"{text} {number}" for number in range(10)]
        self.write(values, acks=acks, codec=codec)
        self.written += values

    def consume(self) -> None:
        expect(self.read(len(self.written)), self.written)

    def share(self) -> None:
        """A member reads and commits; the next one goes on after it."""
        self.share_in(self.group, {})

    def share_in(self, group: str, settings: dict[str, object]) -> None:
        expect(self.read_in_group(group, len(self.written), settings), self.written)
        more = [f"{group} {number}" for number in range(5)]
        self.write(more, acks="all", codec="none")
        self.written += more
        expect(self.read_in_group(group, 5, settings), more)

    def share_by_broker(self) -> None:
        raise Absent

    def create(self) -> None:
        raise NotImplementedError

    def describe(self) -> None:
        raise NotImplementedError

    def delete(self) -> None:
        raise NotImplementedError

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        raise NotImplementedError

    def read(self, count: int) -> list[str]:
        raise NotImplementedError

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        raise NotImplementedError

    def transact(self) -> None:
        raise Absent


class Confluent(Story):
    """librdkafka by confluent-kafka."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        import confluent_kafka
        from confluent_kafka.admin import AdminClient

        self.kafka = confluent_kafka
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def version(self) -> str:
        return str(self.kafka.libversion()[0])

    def create(self) -> None:
        from confluent_kafka.admin import NewTopic

        made = self.admin.create_topics([NewTopic(self.topic, 1, 1)])
        made[self.topic].result(PATIENCE_S)

    def describe(self) -> None:
        from confluent_kafka.admin import ConfigResource

        found = self.admin.list_topics(self.topic, timeout=PATIENCE_S).topics[self.topic]
        expect(len(found.partitions), 1)
        (future,) = self.admin.describe_configs([ConfigResource("topic", self.topic)]).values()
        expect(future.result(PATIENCE_S)["cleanup.policy"].value, "delete")

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(PATIENCE_S)

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        producer = self.kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "acks": acks, "compression.type": codec}
        )
        errors: list[str] = []
        for value in values:
            producer.produce(
                self.topic,
                value,
                partition=0,
                on_delivery=lambda error, _: errors.append(str(error)) if error else None,
            )
        expect((producer.flush(PATIENCE_S), errors), (0, []))

    def consumer(self, **settings: object) -> Any:
        return self.kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def take(self, consumer: Any, count: int) -> list[str]:
        values: list[str] = []
        for _ in within():
            if len(values) == count:
                break
            message = consumer.poll(0.2)
            if message is not None:
                if message.error():
                    raise RuntimeError(str(message.error()))
                values.append(message.value().decode())
        return values

    def read(self, count: int) -> list[str]:
        consumer = self.consumer(isolation_level="read_committed")
        consumer.assign([self.kafka.TopicPartition(self.topic, 0, 0)])
        try:
            return self.take(consumer, count)
        finally:
            consumer.close()

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        consumer = self.consumer(**{"group.id": group, **settings})
        consumer.subscribe([self.topic])
        try:
            values = self.take(consumer, count)
            consumer.commit(asynchronous=False)
            return values
        finally:
            consumer.close()

    def share_by_broker(self) -> None:
        try:
            self.consumer(group_protocol="consumer").close()
        except self.kafka.KafkaException:
            raise Absent from None
        self.share_in(f"{self.group}-848", {"group.protocol": "consumer"})

    def transact(self) -> None:
        try:
            producer = self.kafka.Producer(
                {"bootstrap.servers": self.bootstrap, "transactional.id": self.transactional_id}
            )
        except self.kafka.KafkaException:
            raise Absent from None
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(self.topic, "aborted", partition=0)
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(self.topic, "committed", partition=0)
        partition = self.kafka.TopicPartition(self.topic, 0, 7)
        consumer = self.consumer(group_id=f"{self.group}-transaction")
        try:
            consumer.assign([self.kafka.TopicPartition(self.topic, 0, 0)])
            consumer.poll(0.2)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([partition], metadata, PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)
            expect(consumer.committed([partition], PATIENCE_S)[0].offset, 7)
        finally:
            consumer.close()
        self.written.append("committed")
        expect(self.read(len(self.written)), self.written)


class KafkaPython(Story):
    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        import kafka

        self.kafka = kafka
        self.is_old = kafka.__version__.startswith("2.0")
        self.admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def version(self) -> str:
        return str(self.kafka.__version__)

    def create(self) -> None:
        from kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(self.topic, 1, 1)])

    def describe(self) -> None:
        (found,) = self.admin.describe_topics([self.topic])
        expect(len(found["partitions"]), 1)

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        producer = self.kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            **({} if self.is_old else {"enable_idempotence": acks == "all"}),
        )
        sent = [producer.send(self.topic, value.encode(), partition=0) for value in values]
        for each in sent:
            each.get(PATIENCE_S)
        producer.close()

    def take(self, consumer: Any, count: int) -> list[str]:
        values: list[str] = []
        for _ in within():
            if len(values) == count:
                break
            # Not less: a poll of 3.0 that ends while it joins a group forgets its assignment.
            for records in consumer.poll(5_000, max_records=count - len(values)).values():
                values += [record.value.decode() for record in records]
        return values

    def consumer(self, **settings: object) -> Any:
        return self.kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            **settings,
        )

    def read(self, count: int) -> list[str]:
        settings = {} if self.is_old else {"isolation_level": "read_committed"}
        consumer = self.consumer(group_id=None, **settings)
        partition = self.kafka.TopicPartition(self.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        try:
            return self.take(consumer, count)
        finally:
            consumer.close()

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        consumer = self.consumer(group_id=group)
        consumer.subscribe([self.topic])
        try:
            values = self.take(consumer, count)
            consumer.commit()
            return values
        finally:
            consumer.close()

    def transact(self) -> None:
        if self.is_old:
            raise Absent
        producer = self.kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=self.transactional_id
        )
        partition = self.kafka.TopicPartition(self.topic, 0)
        group = f"{self.group}-transaction"
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(self.topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(self.topic, b"committed", partition=0)
        offsets = {partition: self.kafka.structs.OffsetAndMetadata(7, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        producer.commit_transaction()
        producer.close()
        consumer = self.consumer(group_id=group)
        try:
            expect(consumer.committed(partition), 7)
        finally:
            consumer.close()
        self.written.append("committed")
        expect(self.read(len(self.written)), self.written)


class Aiokafka(Story):
    """aiokafka; each step is a loop of its own."""

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, PATIENCE_S)

        return asyncio.run(bounded())

    def version(self) -> str:
        import aiokafka

        return str(aiokafka.__version__)

    def create(self) -> None:
        self.run(self._with_admin(self._create))

    def describe(self) -> None:
        self.run(self._with_admin(self._describe))

    def delete(self) -> None:
        self.run(self._with_admin(lambda admin: admin.delete_topics([self.topic])))

    async def _with_admin(self, action: Any) -> None:
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            await action(admin)
        finally:
            await admin.close()

    async def _create(self, admin: Any) -> None:
        from aiokafka.admin import NewTopic

        await admin.create_topics([NewTopic(self.topic, 1, 1)])

    async def _describe(self, admin: Any) -> None:
        (found,) = await admin.describe_topics([self.topic])
        expect(len(found["partitions"]), 1)

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        self.run(self._write(values, acks, codec))

    async def _write(self, values: list[str], acks: str, codec: str) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        try:
            for value in values:
                await producer.send_and_wait(self.topic, value.encode(), partition=0)
        finally:
            await producer.stop()

    def read(self, count: int) -> list[str]:
        found: list[str] = self.run(self._read(None, count))
        return found

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        found: list[str] = self.run(self._read(group, count))
        return found

    async def _read(self, group: str | None, count: int) -> list[str]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
        )
        if group is not None:
            consumer.subscribe([self.topic])
        await consumer.start()
        try:
            if group is None:
                consumer.assign([TopicPartition(self.topic, 0)])
                await consumer.seek_to_beginning()
            values = [(await consumer.getone()).value.decode() for _ in range(count)]
            if group is not None:
                await consumer.commit()
            return values
        finally:
            await consumer.stop()

    def transact(self) -> None:
        self.run(self._transact())
        self.written.append("committed")
        expect(self.read(len(self.written)), self.written)

    async def _transact(self) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        group = f"{self.group}-transaction"
        partition = TopicPartition(self.topic, 0)
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=self.transactional_id
        )
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(self.topic, b"aborted", partition=0)
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(self.topic, b"committed", partition=0)
            await producer.send_offsets_to_transaction({partition: 7}, group)
            await producer.commit_transaction()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group)
        await consumer.start()
        try:
            expect(await consumer.committed(partition), 7)
        finally:
            await consumer.stop()


STORIES = {"confluent": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def main() -> None:
    library, bootstrap, name = sys.argv[1:]
    if library == "confluent":
        import os

        # An older librdkafka lacks functions that the binding knows: they are not called.
        sys.setdlopenflags(os.RTLD_LAZY)
    STORIES[library](bootstrap, name).tell()


if __name__ == "__main__":
    main()
