"""Where leaders and replicas are: moves in progress, and elections of preferred leaders."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from odradek.client.admin.partitions import ElectionType
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.wording import counted

_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that moves. `copied` are the bytes that its new replicas have, of `size`; None
    if a broker does not say."""

    partition: TopicPartition
    keeps: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied: int | None
    size: int | None

    @property
    def share(self) -> float | None:
        if self.copied is None or not self.size:
            return None
        return min(100.0, 100 * self.copied / (self.size * max(1, len(self.adding))))


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """A partition that its preferred leader does not lead."""

    partition: TopicPartition
    leader: int
    preferred: int
    is_in_sync: bool


class PlacementPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/balance/moves", self._moves, "Partitions that move."),
            self.changes("/balance/moves", self._cancel, "Stops moves."),
            self.shows("/balance/leaders", self._leaders, "Leaders that are not preferred."),
            self.changes("/balance/leaders", self._elect, "Elects leaders."),
        ]

    # Moves

    async def _moves(self, asked: PageRequest, problem: str = "") -> Response:
        rows = await _move_rows(asked)
        return asked.page(
            "balance.html", "balance", 400 if problem else 200, tab="moves", problem=problem,
            rows=rows[:_SHOWN], count=len(rows),
        )  # fmt: skip

    async def _cancel(self, asked: PageRequest) -> Response:
        try:
            chosen = _partitions(asked.form.many("partition"))
            if not chosen:
                raise BadForm("Choose the moves to stop")
        except BadForm as error:
            return await self._moves(asked, str(error))
        answers = await asked.admin.cancel_partition_reassignments(chosen)
        refused = [error for error in answers.values() if error is not None]
        if refused:
            return await self._moves(asked, f"The brokers refused it: {refused[0].message}")
        asked.changed()
        words = counted(len(chosen), "move was", "moves were")
        return asked.go(
            asked.url("balance", "moves"), "good",
            f"{words} stopped; the partitions are where they were before.",
        )  # fmt: skip

    # Leaders

    async def _leaders(self, asked: PageRequest, problem: str = "") -> Response:
        rows = await _leader_rows(asked)
        return asked.page(
            "balance.html", "balance", 400 if problem else 200, tab="leaders", problem=problem,
            rows=rows[:_SHOWN], count=len(rows), able=sum(row.is_in_sync for row in rows),
        )  # fmt: skip

    async def _elect(self, asked: PageRequest) -> Response:
        try:
            chosen = _partitions(asked.form.many("partition"))
        except BadForm as error:
            return await self._leaders(asked, str(error))
        if not chosen:
            chosen = [row.partition for row in await _leader_rows(asked) if row.is_in_sync]
        if not chosen:
            return await self._leaders(
                asked,
                "There is nothing to elect: no preferred replica that does not lead is in sync.",
            )
        answers = await asked.admin.elect_leaders(ElectionType.PREFERRED, chosen)
        refused = {
            partition: error
            for partition, error in answers.items()
            if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED
        }
        asked.changed()
        elected = len(answers) - len(refused)
        words = f"{counted(elected, 'partition is', 'partitions are')} led by the first replica."
        if refused:
            partition, reason = next(iter(refused.items()))
            return await self._leaders(
                asked, f"{words} {len(refused)} not: {partition}: {reason.message}"
            )
        return asked.go(asked.url("balance", "leaders"), "good", words)


def _partitions(texts: Iterable[str]) -> list[TopicPartition]:
    found = []
    for text in texts:
        topic, _, index = text.rpartition("-")
        if not topic or not index.isdecimal() or len(index) > 9:
            raise BadForm(f"{text[:60]!r} is not a partition")
        found.append(TopicPartition(topic, int(index)))
    return found


async def _move_rows(asked: PageRequest) -> list[MoveRow]:
    moving = await asked.admin.list_partition_reassignments()
    sizes: dict[tuple[int, TopicPartition], int] = {}
    brokers = {int(broker) for one in moving.values() for broker in one.replicas}
    for broker in sorted(brokers) if moving else ():
        try:
            answer = await asked.admin.describe_log_dirs([broker], list(moving))
        except (KafkaError, ClientError):
            continue  # A broker that is away, or not for this user.
        for directory in answer[BrokerId(broker)]:
            for partition, replica in directory.replicas.items():
                sizes[broker, partition] = replica.size_bytes
    rows = []
    for partition, move in sorted(moving.items()):
        adding, removing = tuple(map(int, move.adding)), tuple(map(int, move.removing))
        keeps = tuple(int(one) for one in move.replicas if int(one) not in adding)
        own = [sizes[kept, partition] for kept in keeps if (kept, partition) in sizes]
        copied = [sizes.get((one, partition), 0) for one in adding]
        rows.append(
            MoveRow(
                partition, tuple(kept for kept in keeps if kept not in removing), adding, removing,
                sum(copied) if own else None, max(own) if own else None,
            )
        )  # fmt: skip
    return rows


async def _leader_rows(asked: PageRequest) -> list[LeaderRow]:
    topics = await asked.admin.list_topics(include_internal=True)
    return sorted(
        (
            LeaderRow(
                TopicPartition(topic.name, partition.index), int(partition.leader),
                int(partition.replicas[0]), partition.replicas[0] in partition.in_sync,
            )
            for topic in topics.values()
            for partition in topic.partitions.values()
            if partition.replicas and partition.leader != partition.replicas[0]
        ),
        key=lambda row: row.partition,
    )  # fmt: skip
