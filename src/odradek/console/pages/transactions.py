"""Transactions: those that are open, those that hang, and ending one after saying what that does.

An open transaction hides later records of its partitions from readers of committed records. While
its coordinator knows it, it is aborted there, in all partitions at once, and its producer is
fenced. If the coordinator has forgotten it, it hangs: nobody else ever ends it, and a marker that
aborts it is written to the one partition.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from odradek.client.admin.admin import Admin
from odradek.client.admin.transactions import PartitionProducer, TransactionDescription
from odradek.client.leader_requests import LATEST
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.records.reading import listed_offsets
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.wording import counted
from odradek.world.clock import SystemClock

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_ENDING: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
_MAX_SHOWN: Final = 500
_MAX_SEARCHED: Final = 5000


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, as the partition's leader knows it. `known` is
    what its coordinator says, or None if it hangs."""

    partition: TopicPartition
    producer: PartitionProducer
    known: TransactionDescription | None


class TransactionPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        one = "/topics/{topic}/transactions/{partition:int}/{producer:int}"
        return [
            self.shows("/transactions", self._list, "Transactional ids, and what is open."),
            self.shows("/transactions/{id}", self._one, "A transactional id."),
            self.changes("/transactions/{id}/abort", self._abort, "Aborts its transaction."),
            self.shows("/hanging-transactions", self._hanging, "Transactions that hang."),
            self.shows(one, self._in_partition, "A transaction that is open in a partition."),
            self.changes(f"{one}/abort", self._abort_in_partition, "Ends it in this partition."),
        ]

    # Of coordinators

    async def _list(self, asked: PageRequest) -> Response:
        with_all = asked.query.has("all")
        text = asked.query.text("q")
        listings = await asked.admin.list_transactions(states=() if with_all else _OPEN)
        names = sorted(
            listing.transactional_id
            for listing in listings
            if text.lower() in listing.transactional_id.lower()
        )  # fmt: skip
        described = await asked.admin.describe_transactions(names[:_MAX_SHOWN])
        rows = [one for one in described.values() if not isinstance(one, KafkaError)]
        rows.sort(key=lambda one: (one.started_ms is None, one.started_ms, one.transactional_id))
        return asked.page(
            "transactions.html", "transactions", tab="list", rows=rows, count=len(names),
            text=text, with_all=with_all, now_ms=SystemClock().now_ms(), ended=_ENDING,
        )  # fmt: skip

    async def _one(self, asked: PageRequest, problem: str = "") -> Response:
        one = await _described(asked)
        return asked.page(
            "transaction.html", "transactions", 400 if problem else 200, one=one, problem=problem,
            is_open=one.state not in _ENDING, now_ms=SystemClock().now_ms(),
        )  # fmt: skip

    async def _abort(self, asked: PageRequest) -> Response:
        one = await _described(asked)
        name = one.transactional_id
        if asked.form.text("confirm") != name:
            return await self._one(
                asked, f"Nothing was done: type {name} into the field to confirm it"
            )
        answer = (await asked.admin.fence_producers([name]))[name]
        if isinstance(answer, KafkaError):
            return await self._one(asked, f"The brokers refused it: {answer.message}")
        return asked.go(
            asked.url("transactions", name), "good",
            f"The transaction of {name} was aborted, and its producer is fenced.",
        )  # fmt: skip

    # Of partitions

    async def _hanging(self, asked: PageRequest) -> Response:
        name = asked.query.text("topic")
        rows: list[OpenTransaction] | None = None
        problem, searched = "", 0
        if asked.query.has("topic"):
            topics = (
                {name: await asked.topic(name)}
                if name
                else await asked.admin.list_topics(include_internal=True)
            )
            partitions = [
                TopicPartition(topic.name, index)
                for topic in topics.values()
                for index, partition in topic.partitions.items()
                if partition.leader >= 0
            ]
            searched = len(partitions)
            if searched > _MAX_SEARCHED:
                problem = (
                    f"There are {counted(searched, 'partition', spec=',')}, and at most"
                    f" {_MAX_SEARCHED:,} are asked: name a topic"
                )
            else:
                found = await open_transactions(asked.admin, partitions)
                rows = [one for one in found if one.known is None]
        return asked.page(
            "transactions.html", "transactions", 400 if problem else 200, tab="hanging",
            problem=problem, hanging=rows, searched=searched, text=name,
        )  # fmt: skip

    async def _in_partition(self, asked: PageRequest, problem: str = "") -> Response:
        found = await _found(asked)
        ends = await listed_offsets(asked.admin, [found.partition], LATEST)
        start = found.producer.transaction_start_offset or 0
        return asked.page(
            "hanging.html", "transactions", 400 if problem else 200, one=found, problem=problem,
            behind=max(0, ends.get(found.partition, start) - start),
        )  # fmt: skip

    async def _abort_in_partition(self, asked: PageRequest) -> Response:
        found = await _found(asked)
        producer = found.producer
        if found.known is not None:
            return await self._in_partition(
                asked, f"Its coordinator knows it: abort {found.known.transactional_id} there"
            )
        if asked.form.text("start") != str(producer.transaction_start_offset):
            raise BadForm("another transaction of this producer is open now; load the page again")
        if asked.form.text("confirm") != str(producer.producer_id):
            return await self._in_partition(
                asked,
                f"Nothing was done: type {producer.producer_id} into the field to confirm it",
            )
        await asked.admin.abort_transaction(
            found.partition, producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch,
        )  # fmt: skip
        return asked.go(
            asked.url("topics", found.partition.topic, "producers"), "good",
            f"The transaction of producer {producer.producer_id} in partition"
            f" {found.partition.partition} was aborted.",
        )  # fmt: skip


async def _described(asked: PageRequest) -> TransactionDescription:
    name = str(asked.path["id"])
    found = (await asked.admin.describe_transactions([name]))[name]
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise Problem(404, f"no coordinator knows the transactional id {name}")
        raise found
    return found


async def _found(asked: PageRequest) -> OpenTransaction:
    topic = await asked.topic(str(asked.path["topic"]))
    partition = TopicPartition(topic.name, int(asked.path["partition"]))
    if partition.partition not in topic.partitions:
        raise Problem(404, f"{topic.name} has no partition {partition.partition}")
    for open_transaction in await open_transactions(asked.admin, [partition]):
        if open_transaction.producer.producer_id == asked.path["producer"]:
            return open_transaction
    raise Problem(
        404,
        f"producer {asked.path['producer']} has no open transaction in {partition}; it may have"
        " ended",
    )


async def open_transactions(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """Returns the transactions that are open in partitions, those that hang first. Partitions that
    cannot be asked are left out. One is known only if its coordinator has the partition in it."""
    asked = list(partitions)
    found: list[tuple[TopicPartition, PartitionProducer]] = []
    if asked:
        for partition, answer in (await admin.describe_producers(asked)).items():
            if isinstance(answer, KafkaError):
                continue
            found += [
                (partition, one) for one in answer if one.transaction_start_offset is not None
            ]
    if not found:
        return []
    ids = sorted({producer.producer_id for _, producer in found})
    listings = await admin.list_transactions(producer_ids=ids)
    described = await admin.describe_transactions(
        [listing.transactional_id for listing in listings]
    )
    by_producer = {
        one.producer_id: one for one in described.values() if not isinstance(one, KafkaError)
    }
    rows = []
    for partition, producer in found:
        known = by_producer.get(producer.producer_id)
        is_known = known is not None and partition in known.partitions
        rows.append(OpenTransaction(partition, producer, known if is_known else None))
    rows.sort(key=lambda one: (one.known is not None, one.partition))
    return rows
