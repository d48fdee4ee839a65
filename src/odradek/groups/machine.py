"""The machine over all groups of one partition of `__consumer_offsets`.

It finds the group that a command is about and lets the kind of group decide; offsets,
listing, deletion and retention are the same for all kinds and are here. A group of another
kind (`group.OtherGroups`) is given its own commands, records and deadlines.

Invariant: what a replay of the log gives is what is in memory, less callers that wait,
members that have not joined, and rebalances under way. A record that nobody knows, or nobody
can read, is skipped: a newer coordinator may have written it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final, cast

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import ClassicGroup, State
from odradek.groups.commands import (
    ClassicCommand,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    ForgetTopics,
    GroupListing,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from odradek.groups.group import (
    Group,
    GroupChanged,
    GroupOutcome,
    OtherGroups,
    members_of,
    offsets_of,
)
from odradek.groups.membership import Membership, session_deadline
from odradek.groups.offsets import Offsets
from odradek.groups.records import (
    CLASSIC_GROUP,
    OFFSET,
    OLD_OFFSET,
    kind_of,
    read_group,
    read_group_key,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.records import BatchBuilder
from odradek.statemachine.machine import (
    Caller,
    Deadline,
    LogRecord,
    Marker,
    Now,
    Outcome,
    Reply,
    Written,
)

RETENTION: Final = "retention"

# Unused offsets are looked for in so many groups at a time, or in groups with so many offsets, so
# that nobody has to wait long: 10,000 take some milliseconds.
_GROUPS_A_TURN: Final = 500
_OFFSETS_A_TURN: Final = 10_000
_NEXT_TURN_MS: Final = 10

_MS_PER_MINUTE: Final = 60_000
# What every batch has room for; no need to look up what is allowed.
_ALWAYS_FITS_BYTES: Final = 16 * 1024

Decide = Callable[[object, Caller | None, Now], GroupOutcome]


class GroupMachine:
    def __init__(
        self,
        settings: GroupSettings,
        new_identifier: Callable[[], str],
        others: Sequence[OtherGroups] = (),
        largest_batch: Callable[[], int] | None = None,
    ) -> None:
        """`new_identifier` makes the unique part of a member's id. `largest_batch` is
        `max.message.bytes` of the internal topic, if there is a limit."""
        self._settings = settings
        self._membership = Membership(settings, new_identifier)
        self._others = tuple(others)
        self._largest_batch = largest_batch
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._decide: dict[type, Decide] = {
            JoinGroup: self._classic,
            SyncGroup: self._classic,
            Heartbeat: self._classic,
            LeaveGroup: self._classic,
            CommitOffsets: self._commit,
            FetchOffsets: self._fetch,
            DeleteOffsets: self._delete_offsets,
            ForgetTopics: self._forget_topics,
            DescribeGroup: self._describe,
            DeleteGroup: self._delete_group,
        }
        self._readers: dict[int, OtherGroups] = {}
        for other in self._others:
            for command in other.commands:
                self._decide[command] = self._decision_of(other)
            for kind in other.record_kinds:
                self._readers[kind] = other

    def _decision_of(self, other: OtherGroups) -> Decide:
        return lambda command, caller, now: other.decide(self.groups, command, caller, now)

    # The four verbs of a machine

    def decide(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        return self._decide[type(command)](command, caller, now)

    def apply(self, entry: Written | Marker | GroupChanged) -> None:
        if isinstance(entry, Written):
            try:
                self._apply_record(entry)
            except MalformedMessage:
                return
        elif isinstance(entry, GroupChanged):
            self.groups[entry.group.group_id] = entry.group
        else:
            self.offsets.end_transaction(entry)

    def subjects_of(self, marker: Marker) -> list[Hashable]:
        """The offsets that become visible, or are forgotten, when a transaction ends."""
        return [offsets_of(group_id) for group_id in self.offsets.groups_in(marker.producer)]

    def expire(self, key: Hashable, now: Now) -> GroupOutcome:
        if not isinstance(key, tuple):
            return Outcome()
        if key[0] == RETENTION:
            return self._drop_unused(key[1], now)
        for other in self._others:
            if key[0] == other.deadlines:
                return other.expire(self.groups, key, now)
        group = self.groups.get(key[1])
        if not isinstance(group, ClassicGroup):
            return Outcome()
        return self._membership.expire(group, key, now)

    def loaded(self, now: Now) -> GroupOutcome:
        outcomes = [self._loaded(group, now) for group in list(self.groups.values())]
        check = Deadline((RETENTION, 0), self._settings.offsets_retention_check_interval_ms)
        return Outcome(
            [record for outcome in outcomes for record in outcome.records],
            [event for outcome in outcomes for event in outcome.events],
            [reply for outcome in outcomes for reply in outcome.replies],
            [*(each for outcome in outcomes for each in outcome.deadlines), check],
            subjects=[
                subject
                for outcome in outcomes
                if outcome.records
                for subject in outcome.subjects or ()
            ],
        )

    def _loaded(self, group: Group, now: Now) -> GroupOutcome:
        if isinstance(group, ClassicGroup):
            return self._membership.loaded(group, now)
        other = self._kind_of(group)
        return Outcome() if other is None else other.loaded(group, now)

    # Records

    def _apply_record(self, entry: Written) -> None:
        key, value = entry.record
        kind = kind_of(key)
        if kind in (OFFSET, OLD_OFFSET):
            group_id = self.offsets.apply(entry)
            if value is not None and group_id not in self.groups:
                # A consumer on its own: a group without members or protocol.
                self.groups[group_id] = ClassicGroup(group_id, -1)
        elif kind == CLASSIC_GROUP:
            self._replay_classic(key, value)
        elif kind in self._readers:
            other = self._readers[kind]
            group_id = other.group_of(key)
            before = self.groups.get(group_id)
            after = other.replay(before, key, value)
            if after is not None:
                self.groups[group_id] = after
            elif before is not None and self._kind_of(before) is other:
                self._remove(group_id)

    def _replay_classic(self, key: bytes, value: bytes | None) -> None:
        group_id = read_group_key(key)
        if value is not None:
            self.groups[group_id] = ClassicGroup.from_value(group_id, read_group(value))
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            self._remove(group_id)

    def _remove(self, group_id: str) -> None:
        """Offsets that outlive their group (in a transaction, or until their own tombstones are
        read) belong to a consumer on its own."""
        del self.groups[group_id]
        if self.offsets.of(group_id) or self.offsets.has_open_transaction(group_id):
            self.groups[group_id] = ClassicGroup(group_id, -1)

    def _kind_of(self, group: Group) -> OtherGroups | None:
        return next((each for each in self._others if each.owns(group)), None)

    # Classic members

    def _classic(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        asked = cast(ClassicCommand, command)
        group = self.groups.get(asked.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self._membership.decide(group, asked, caller, now)
        if not group.is_empty:
            other = self._kind_of(group)
            if other is not None:
                return other.decide_classic(group, asked, caller, now)
        outcome = self._membership.decide(None, asked, caller, now)
        if not outcome.events:
            return outcome
        # An empty group of another kind gives way to a classic one.
        return outcome._replace(records=[*group.tombstones(), *outcome.records])

    # Offsets

    def _commit(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        commit = cast(CommitOffsets, command)
        group = self._group_for_commit(commit)
        check = group.check_commit(commit)
        errors = []
        records = []
        for offset in commit.offsets:
            error = ErrorCode.NONE if check is None else check(offset.partition, offset.topic_id)
            if len(offset.metadata or "") > self._settings.offset_metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            errors.append(error)
            if error is ErrorCode.NONE:
                records.append(self.offsets.commit(commit, offset, now))
        self._check_size(records)
        return Outcome(
            records,
            replies=_reply(caller, errors),
            deadlines=_sign_of_life(group, commit),
            producer=commit.producer,
            subjects=(offsets_of(commit.group_id),),
        )

    def _group_for_commit(self, commit: CommitOffsets) -> Group:
        if commit.producer is not None and not commit.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(commit.group_id)
        if group is not None:
            return group
        if commit.generation_id < 0:
            return ClassicGroup(commit.group_id, -1)
        if commit.knows_missing_groups and commit.producer is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def _fetch(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        query = cast(FetchOffsets, command)
        group = self.groups.get(query.group_id)
        if group is not None:
            group.check_fetch(query.member_id, query.member_epoch)
        return Outcome(
            replies=_reply(caller, self.offsets.fetch(query)),
            subjects=(offsets_of(query.group_id),),
        )

    def _delete_offsets(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        deletion = cast(DeleteOffsets, command)
        group = self._existing(deletion.group_id)
        group.check_offset_deletion()
        refused = {
            partition
            for partition in deletion.partitions
            if group.is_subscribed_to(partition.topic)
        }
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if partition in refused else ErrorCode.NONE
            for partition in deletion.partitions
        ]
        free = [partition for partition in deletion.partitions if partition not in refused]
        records = self.offsets.tombstones(deletion.group_id, free)
        self._check_size(records)
        return Outcome(
            records, replies=_reply(caller, errors), subjects=(offsets_of(deletion.group_id),)
        )

    def _check_size(self, records: Sequence[LogRecord]) -> None:
        """Refuses what a client wants to be written if one batch cannot hold it, as Kafka does with
        this code. It is written as a whole or not at all, so it cannot be split."""
        size = sum(len(key) + len(value or b"") for key, value in records)
        if size <= _ALWAYS_FITS_BYTES or self._largest_batch is None:
            return
        builder = BatchBuilder()
        for key, value in records:
            builder.append(key, value, (), 0)
        largest = self._largest_batch()
        if builder.size_bytes > largest:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The offsets take {builder.size_bytes} bytes as records, and max.message.bytes of"
                f" the internal topic is {largest}: send them in several requests.",
            )

    def _forget_topics(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        found = self.offsets.groups_with(cast(ForgetTopics, command).topics)
        records = [
            record
            for group_id, partitions in found.items()
            for record in self.offsets.tombstones(group_id, partitions)
        ]
        return Outcome(
            records,
            replies=_reply(caller, len(records)),
            subjects=[offsets_of(group_id) for group_id in found],
        )

    def _drop_unused(self, start: int, now: Now) -> GroupOutcome:
        """For some of the groups, from the one in place `start` on; then sets when to go on."""
        turn = self._groups_of_a_turn(start)
        records: list[LogRecord] = []
        subjects: list[Hashable] = []
        gone = 0
        for group in turn:
            offsets, ending = self._unused(group, now)
            if offsets or ending:
                records += (*offsets, *ending)
                subjects += _everything_of(group.group_id)
            gone += bool(ending)
        if start + len(turn) < len(self.groups):
            # Those that go make way for the ones behind them.
            going_on = Deadline((RETENTION, start + len(turn) - gone), _NEXT_TURN_MS)
        else:
            interval_ms = self._settings.offsets_retention_check_interval_ms
            going_on = Deadline((RETENTION, 0), interval_ms)
        return Outcome(records, deadlines=(going_on,), subjects=subjects)

    def _groups_of_a_turn(self, start: int) -> list[Group]:
        turn: list[Group] = []
        offsets = 0
        for group in islice(self.groups.values(), start, start + _GROUPS_A_TURN):
            turn.append(group)
            offsets += len(self.offsets.of(group.group_id))
            if offsets >= _OFFSETS_A_TURN:
                break
        return turn

    def _unused(self, group: Group, now: Now) -> tuple[Sequence[LogRecord], Sequence[LogRecord]]:
        """Ends the offsets that nobody used, and the group itself if nothing is left of it."""
        group_id = group.group_id
        retention_ms = self._settings.offsets_retention_minutes * _MS_PER_MINUTE
        expired = self.offsets.expired(group, retention_ms, now)
        offsets = self.offsets.tombstones(group_id, expired)
        stays = (
            len(expired) < len(self.offsets.of(group_id))
            or not _may_go(group)
            or self.offsets.has_open_transaction(group_id)
        )
        return offsets, () if stays else group.tombstones()

    # Administration

    def listings(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of the states and of one of the types; case is ignored."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            listing
            for listing in (group.listing() for group in self.groups.values())
            if (not wanted_states or listing.state.lower() in wanted_states)
            and (not wanted_types or listing.type.lower() in wanted_types)
        ]

    def _describe(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        group_id = cast(DescribeGroup, command).group_id
        group = self._existing(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group."
            )
        return Outcome(
            replies=_reply(caller, group.description()), subjects=_everything_of(group_id)
        )

    def _delete_group(self, command: object, caller: Caller | None, now: Now) -> GroupOutcome:
        group = self._existing(cast(DeleteGroup, command).group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        group_id = group.group_id
        offsets = self.offsets.tombstones(group_id, self.offsets.known(group_id))
        return Outcome(
            [*offsets, *group.tombstones()],
            replies=_reply(caller, ErrorCode.NONE),
            subjects=_everything_of(group_id),
        )

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group


def _everything_of(group_id: str) -> tuple[Hashable, ...]:
    return members_of(group_id), offsets_of(group_id)


def _reply(caller: Caller | None, response: object) -> tuple[Reply, ...]:
    return () if caller is None else (Reply(caller, response),)


def _sign_of_life(group: Group, commit: CommitOffsets) -> tuple[Deadline, ...]:
    """A member that commits lives; not so while it should be waiting for its assignment."""
    if not isinstance(group, ClassicGroup) or commit.producer is not None:
        return ()
    member = group.members.get(commit.member_id)
    if member is None or group.state is State.COMPLETING_REBALANCE:
        return ()
    return (session_deadline(group.group_id, member),)


def _may_go(group: Group) -> bool:
    """A group without members, unless somebody was just given an id to join it with."""
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending_joins)
