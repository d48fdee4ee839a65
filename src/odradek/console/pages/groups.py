"""Consumer groups: members, lag, and moving them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from odradek.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
)
from odradek.client.errors import ClientError
from odradek.client.leader_requests import LATEST
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.pages.history import shown_hours
from odradek.console.pages.offset_plans import TARGETS, Move, plan_moves
from odradek.console.prometheus import RANGES
from odradek.console.records.reading import listed_offsets
from odradek.ops.top.figures import GroupFigures
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.web.media import JSON
from odradek.web.problems import Problem, json_response
from odradek.wording import counted

PER_PAGE: Final = 50
_MAX_MOVES: Final = 20_000
_MAX_LINES: Final = 200


@dataclass(frozen=True, slots=True)
class GroupRow:
    name: str
    state: str
    type: str
    coordinator: int
    figures: GroupFigures | None

    @property
    def lag(self) -> int:
        return -1 if self.figures is None else self.figures.lag


class GroupPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        group = "/groups/{group}"
        return [
            self.shows("/groups", self._list, "All consumer groups."),
            self.shows(group, self._group, "Members and lag of a group."),
            self.shows(
                f"{group}/points",
                self._points,
                "Its lag, for a chart.",
                produces=(JSON,),
                needs_brokers=False,
            ),
            self.shows(f"{group}/reset", self._plan, "What a reset would do."),
            self.changes(f"{group}/reset", self._reset, "Moves a group."),
            self.changes(f"{group}/delete-offsets", self._delete_offsets, "Deletes offsets."),
            self.changes(f"{group}/delete", self._delete, "Deletes a group."),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        listings = await asked.admin.list_groups()
        figures = await asked.watcher.first()
        known = {group.name: group for group in figures.groups} if figures is not None else {}
        text, sort = asked.query.text("q").lower(), asked.query.text("sort", "name")
        is_down = asked.query.text("dir") == "down"
        rows = [
            GroupRow(
                listing.group_id,
                listing.state,
                listing.type,
                int(listing.coordinator.id),
                known.get(listing.group_id),
            )
            for listing in listings
            if text in listing.group_id.lower()
        ]
        rows.sort(key=_sort_key(sort), reverse=is_down)
        last = max(1, -(-len(rows) // PER_PAGE))
        page = min(last, max(1, asked.query.number("page", "Page", at_most=10**6) or 1))
        return asked.page(
            "groups.html", "groups", rows=rows[(page - 1) * PER_PAGE : page * PER_PAGE],
            count=len(rows), all=len(listings), page=page, last=last, sort=sort, is_down=is_down,
            text=asked.query.text("q"), problem=asked.watcher.problem,
        )  # fmt: skip

    async def _group(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["group"])
        other = await _of_another_kind(asked, name)
        if other is not None:
            return asked.page("group_other.html", "groups", group=other)
        group = await _described(asked, name)
        offsets = await _offsets(asked, name)
        assigned = {
            partition: member for member in group.members for partition in member.assignment
        }
        partitions = sorted({*offsets, *assigned})
        ends: dict[TopicPartition, int] = {}
        if partitions:
            try:
                ends = await listed_offsets(asked.admin, partitions, LATEST)
            except (KafkaError, ClientError) as error:
                problem = problem or f"The ends of the partitions cannot be read: {error}"
        topics: dict[str, list[dict[str, Any]]] = {}
        for partition in partitions:
            offset, end = offsets.get(partition), ends.get(partition)
            member = assigned.get(partition)
            topics.setdefault(partition.topic, []).append(
                {
                    "partition": partition.partition, "offset": offset, "end": end,
                    "lag": None if offset is None or end is None else max(0, end - offset),
                    "member": member.client_id if member is not None else "",
                    "host": member.host.removeprefix("/") if member is not None else "",
                }
            )  # fmt: skip
        figures = await asked.watcher.first()
        known = next((one for one in figures.groups if one.name == name), None) if figures else None
        return asked.page(
            "group.html", "groups", 400 if problem else 200, group=group, topics=topics,
            figures=known, problem=problem, ranges=RANGES, hours=shown_hours(asked),
            members=[_member_row(one) for one in group.members],
            lag=sum(row["lag"] or 0 for rows in topics.values() for row in rows),
        )  # fmt: skip

    async def _points(self, asked: PageRequest) -> Response:
        watcher = asked.watcher
        lags = watcher.lags.of(str(asked.path["group"]))
        return json_response(
            [
                [point.at_s, None if lag < 0 else lag]
                for point, lag in zip(watcher.points, lags, strict=True)
            ]
        )

    # Moving

    async def _plan(self, asked: PageRequest) -> Response:
        return await self._reset_page(asked)

    async def _reset_page(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["group"])
        group = await _described(asked, name)
        offsets = await _offsets(asked, name)
        moves: list[Move] = []
        query = asked.query
        if query.has("to") and not problem:
            try:
                moves = await plan_moves(asked.admin, query, offsets)
            except BadForm as error:
                problem = str(error)
        if len(moves) > _MAX_MOVES:
            moves, problem = [], f"a reset moves {_MAX_MOVES:,} offsets at most"
        return asked.page(
            "group_reset.html", "groups", 400 if problem else 200, group=group,
            topics=sorted({partition.topic for partition in offsets}), targets=TARGETS,
            fields=dict(query.fields), chosen=query.many("topic"), moves=moves, problem=problem,
            own_offsets=query.raw("offsets") or _as_lines(offsets),
            plan="\n".join(f"{move.topic}:{move.partition}:{move.after}" for move in moves),
        )  # fmt: skip

    async def _reset(self, asked: PageRequest) -> Response:
        name = str(asked.path["group"])
        plan: dict[TopicPartition, GroupOffset | int] = {}
        try:
            for line in asked.form.raw("plan").split():
                topic, partition, offset = line.rsplit(":", 2)
                plan[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise Problem(400, "the plan cannot be read; make the preview again") from None
        if not plan:
            return await self._reset_page(asked, "There is nothing to move.")
        group = await _described(asked, name)
        if group.is_active:
            return await self._reset_page(asked, active_words(group))
        answers = await asked.admin.alter_group_offsets(name, plan, may_create=True)
        errors = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if errors:
            return await self._reset_page(asked, f"The group was not moved: {errors[0].message}")
        asked.changed()
        return asked.go(
            asked.url("groups", name),
            "good",
            f"{name} was moved in {counted(len(plan), 'partition')}.",
        )

    # Deleting

    async def _delete_offsets(self, asked: PageRequest) -> Response:
        name = str(asked.path["group"])
        topic = asked.form.needed("topic", "The topic")
        offsets = await _offsets(asked, name)
        partitions = [partition for partition in offsets if partition.topic == topic]
        if not partitions:
            return await self._group(asked, f"{name} has no offsets in {topic}")
        answers = await asked.admin.delete_group_offsets(name, partitions)
        errors = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if errors:
            return await self._group(asked, f"The offsets were not deleted: {errors[0].message}")
        asked.changed()
        return asked.go(
            asked.url("groups", name), "good", f"The offsets of {name} in {topic} were deleted."
        )

    async def _delete(self, asked: PageRequest) -> Response:
        name = str(asked.path["group"])
        if asked.form.text("confirm") != name:
            return await self._group(
                asked, f"Nothing was done: type {name} into the field to confirm it"
            )
        answer = (await asked.admin.delete_groups([name]))[name]
        if isinstance(answer, KafkaError):
            return await self._group(asked, f"The group was not deleted: {answer.message}")
        asked.changed()
        return asked.go(asked.url("groups"), "good", f"Group {name} was deleted.")


def _member_row(member: GroupMember) -> dict[str, Any]:
    """Returns a member with its assignment by topic, and what a rebalance is taking from it or
    giving to it (of the new protocol, which does that step by step)."""
    target = set(member.target_assignment or member.assignment)
    coming, going = target - set(member.assignment), set(member.assignment) - target
    return {
        "client": member.client_id, "host": member.host.removeprefix("/"),
        "id": member.member_id, "instance": member.group_instance_id or "",
        "count": len(member.assignment), "assignment": _by_topic(member.assignment),
        "coming": _by_topic(coming), "going": _by_topic(going), "epoch": member.member_epoch,
    }  # fmt: skip


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, str]]:
    """Returns the topics with their partitions, as in `orders`, `0, 3, 5`."""
    found: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition.partition)
    return [(topic, ", ".join(map(str, indexes))) for topic, indexes in found.items()]


def _as_lines(offsets: dict[TopicPartition, int]) -> str:
    """Returns offsets as the form takes them, so that some of them need only be changed. A form
    that is sent by GET has no room for thousands of lines."""
    if len(offsets) > _MAX_LINES:
        return ""
    return "\n".join(
        f"{partition.topic} {partition.partition} {offset}"
        for partition, offset in sorted(offsets.items())
    )


def active_words(group: GroupDescription) -> str:
    clients = sorted({member.client_id for member in group.members})
    return (
        f"The group is active ({group.state}): {', '.join(clients[:5]) or 'its members'} would"
        " commit other offsets at once. Stop these consumers, then move the group."
    )


async def _described(asked: PageRequest, name: str) -> GroupDescription:
    found = (await asked.admin.describe_groups([name]))[name]
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise Problem(404, f"there is no group {name}, or you may not see it")
        raise found
    return found


async def _of_another_kind(asked: PageRequest, name: str) -> GroupListing | None:
    """Returns the group if it is none of consumers: a share group, one of streams, of Connect or of
    a schema registry. These have members, but no offsets that a consumer would go on from."""
    listings = await asked.admin.list_groups()
    found = next((listing for listing in listings if listing.group_id == name), None)
    return None if found is None or found.is_of_consumers else found


async def _offsets(asked: PageRequest, name: str) -> dict[TopicPartition, int]:
    answers = await asked.admin.list_group_offsets(name)
    return {
        partition: answer.offset
        for partition, answer in answers.items()
        if not isinstance(answer, KafkaError)
    }


def _sort_key(sort: str) -> Any:
    if sort == "lag":
        return lambda row: (row.lag, row.name)
    if sort == "state":
        return lambda row: (row.state, row.name)
    return lambda row: row.name
