"""The state machine of the group coordinator: all groups of one partition of
`__consumer_offsets`.

It finds the group that a command is about and lets the type of the group decide. Listing, deletion
and retention are the same for all types and are decided here; committed offsets are kept in
`groups.offsets`. Types other than the classic one plug in (`group.GroupTypePlugin`).

Invariant: a replay of the log gives the state in memory, except for what is never written: callers
that wait, members that have an id and have not joined, and rebalances in progress. A record of an
unknown kind, or one that cannot be read, is skipped: a newer coordinator may have written it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.classic_membership import ClassicMembership, session_deadline
from odradek.groups.commands import (
    ClassicCommand,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchedOffset,
    FetchOffsets,
    ForgetTopics,
    GroupDescription,
    GroupListing,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from odradek.groups.group import (
    Group,
    GroupChanged,
    GroupDecisionContext,
    GroupDecisions,
    GroupOutcome,
    GroupTypePlugin,
    members_subject,
    offsets_subject,
)
from odradek.groups.offsets import Offsets
from odradek.groups.records import (
    CLASSIC_GROUP,
    OFFSET,
    OLD_OFFSET,
    kind_of,
    read_group,
    read_group_key,
)
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.records import BatchBuilder
from odradek.statemachine.machine import (
    Caller,
    Command,
    Deadline,
    Decisions,
    LogRecord,
    Marker,
    Outcome,
    R,
    Written,
    reply_to,
)

RETENTION: Final = "retention"

# Retention looks at so many groups at a time, or at groups with so many offsets, and then yields to
# other requests: 10,000 offsets take some milliseconds.
_MAX_GROUPS_AT_ONCE: Final = 500
_MAX_OFFSETS_AT_ONCE: Final = 10_000
_YIELD_MS: Final = 10

_MS_PER_MINUTE: Final = 60_000
# Smaller commits fit into any batch, so `max.message.bytes` need not be looked up for them.
_ALWAYS_FITS_BYTES: Final = 16 * 1024


class GroupMachine:
    """A `Machine`; `broker.coordinators` makes one for each partition that the broker leads."""

    def __init__(
        self,
        settings: GroupSettings,
        new_identifier: Callable[[], str],
        plugins: Sequence[GroupTypePlugin] = (),
        max_batch_bytes: Callable[[ClusterImage], int] | None = None,
    ) -> None:
        """`new_identifier` makes the unique part of a member id. `max_batch_bytes` returns
        `max.message.bytes` of the internal topic; None means no limit."""
        self._settings = settings
        self._membership = ClassicMembership(settings, new_identifier)
        self._plugins = tuple(plugins)
        self._max_batch_bytes = max_batch_bytes
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.decisions: GroupDecisions = Decisions()
        self.decisions.on(JoinGroup, self._classic)
        self.decisions.on(SyncGroup, self._classic)
        self.decisions.on(Heartbeat, self._classic)
        self.decisions.on(LeaveGroup, self._classic)
        self.decisions.on(CommitOffsets, self._commit)
        self.decisions.on(FetchOffsets, self._fetch)
        self.decisions.on(DeleteOffsets, self._delete_offsets)
        self.decisions.on(ForgetTopics, self._forget_topics)
        self.decisions.on(DescribeGroup, self._describe)
        self.decisions.on(DeleteGroup, self._delete_group)
        self._readers: dict[int, GroupTypePlugin] = {}
        for plugin in self._plugins:
            plugin.add_decisions(self.decisions, self.groups)
            for kind in plugin.record_kinds:
                self._readers[kind] = plugin

    # The functions of a machine

    def decide(
        self, command: Command[R], caller: Caller[R] | None, now: GroupDecisionContext
    ) -> GroupOutcome:
        return self.decisions.decide(command, caller, now)

    def apply(self, entry: Written | Marker | GroupChanged) -> None:
        if isinstance(entry, Written):
            try:
                self._apply_record(entry)
            except MalformedMessage:
                return
        elif isinstance(entry, GroupChanged):
            entry.group.check()
            self.groups[entry.group.group_id] = entry.group
        else:
            self.offsets.end_transaction(entry)

    def subjects_of(self, marker: Marker) -> list[Hashable]:
        """The offsets that become visible, or are discarded, when a transaction ends."""
        return [offsets_subject(group_id) for group_id in self.offsets.groups_in(marker.producer)]

    def expire(self, key: Hashable, now: GroupDecisionContext) -> GroupOutcome:
        if not isinstance(key, tuple):
            return Outcome()
        if key[0] == RETENTION:
            return self._drop_unused(key[1], now)
        for plugin in self._plugins:
            if key[0] == plugin.deadline_key_prefix:
                return plugin.expire(self.groups, key, now)
        group = self.groups.get(key[1])
        if not isinstance(group, ClassicGroup):
            return Outcome()
        return self._membership.expire(group, key, now)

    def after_load(self, now: GroupDecisionContext) -> GroupOutcome:
        outcomes = [self._group_after_load(group, now) for group in list(self.groups.values())]
        check = Deadline((RETENTION, 0), self._settings.offsets_retention_check_interval_ms)
        return Outcome(
            [record for outcome in outcomes for record in outcome.records],
            [event for outcome in outcomes for event in outcome.events],
            [reply for outcome in outcomes for reply in outcome.replies],
            [*(deadline for outcome in outcomes for deadline in outcome.deadlines), check],
            subjects=[
                subject
                for outcome in outcomes
                if outcome.records
                for subject in outcome.subjects or ()
            ],
            log_lines=[line for outcome in outcomes for line in outcome.log_lines],
        )

    def _group_after_load(self, group: Group, now: GroupDecisionContext) -> GroupOutcome:
        if isinstance(group, ClassicGroup):
            return self._membership.after_load(group, now)
        plugin = self._plugin_of(group)
        return Outcome() if plugin is None else plugin.after_load(group, now)

    # Records

    def _apply_record(self, entry: Written) -> None:
        key, value = entry.record
        kind = kind_of(key)
        if kind in (OFFSET, OLD_OFFSET):
            group_id = self.offsets.apply(entry)
            if value is not None and group_id not in self.groups:
                # Committed by a consumer without group management: a group without members.
                self.groups[group_id] = ClassicGroup(group_id, -1)
        elif kind == CLASSIC_GROUP:
            self._replay_classic(key, value)
        elif kind in self._readers:
            plugin = self._readers[kind]
            group_id = plugin.group_of(key)
            before = self.groups.get(group_id)
            after = plugin.replay(before, key, value)
            if after is not None:
                self.groups[group_id] = after
            elif before is not None and plugin.is_type_of(before):
                self._remove(group_id)

    def _replay_classic(self, key: bytes, value: bytes | None) -> None:
        group_id = read_group_key(key)
        if value is not None:
            self.groups[group_id] = ClassicGroup.from_value(group_id, read_group(value))
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            self._remove(group_id)

    def _remove(self, group_id: str) -> None:
        """Offsets may outlive their group: in a transaction, or until their own tombstones are
        read. Then they belong to a group without members."""
        del self.groups[group_id]
        if self.offsets.of(group_id) or self.offsets.has_open_transaction(group_id):
            self.groups[group_id] = ClassicGroup(group_id, -1)

    def _plugin_of(self, group: Group) -> GroupTypePlugin | None:
        return next((plugin for plugin in self._plugins if plugin.is_type_of(group)), None)

    # Classic members

    def _classic(
        self, command: ClassicCommand, caller: Caller[Any] | None, now: GroupDecisionContext
    ) -> GroupOutcome:
        group = self.groups.get(command.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self._membership.decide(group, command, caller, now)
        if not group.is_empty:
            plugin = self._plugin_of(group)
            if plugin is not None:
                return plugin.decide_classic(group, command, caller, now)
        outcome = self._membership.decide(None, command, caller, now)
        if not outcome.events:
            return outcome
        # A classic group replaces an empty group of another type.
        return outcome._replace(records=[*group.tombstones(), *outcome.records])

    # Offsets

    def _commit(
        self,
        commit: CommitOffsets,
        caller: Caller[list[ErrorCode]] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        group = self._group_for_commit(commit)
        check = group.check_commit(commit, now.image)
        errors = []
        records = []
        for offset in commit.offsets:
            error = ErrorCode.NONE if check is None else check(offset.partition, offset.topic_id)
            if len(offset.metadata or "") > self._settings.offset_metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            errors.append(error)
            if error is ErrorCode.NONE:
                records.append(self.offsets.commit(commit, offset, now))
        self._check_size(records, now)
        return Outcome(
            records,
            replies=reply_to(caller, errors),
            deadlines=_session_deadlines(group, commit),
            producer=commit.producer,
            subjects=(offsets_subject(commit.group_id),),
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

    def _fetch(
        self,
        query: FetchOffsets,
        caller: Caller[list[FetchedOffset]] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        group = self.groups.get(query.group_id)
        if group is not None:
            group.check_fetch(query.member_id, query.member_epoch)
        return Outcome(
            replies=reply_to(caller, self.offsets.fetch(query)),
            subjects=(offsets_subject(query.group_id),),
        )

    def _delete_offsets(
        self,
        deletion: DeleteOffsets,
        caller: Caller[list[ErrorCode]] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        group = self._existing(deletion.group_id)
        group.check_offset_deletion()
        subscribed = {
            partition
            for partition in deletion.partitions
            if group.is_subscribed_to(partition.topic)
        }
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if partition in subscribed else ErrorCode.NONE
            for partition in deletion.partitions
        ]
        deleted = [partition for partition in deletion.partitions if partition not in subscribed]
        records = self.offsets.tombstones(deletion.group_id, deleted)
        self._check_size(records, now)
        return Outcome(
            records,
            replies=reply_to(caller, errors),
            subjects=(offsets_subject(deletion.group_id),),
        )

    def _check_size(self, records: Sequence[LogRecord], now: GroupDecisionContext) -> None:
        """Refuses the records of a client's command if one batch cannot hold them, as Kafka does
        with this error. They are written as a whole or not at all, so they cannot be split."""
        size = sum(len(key) + len(value or b"") for key, value in records)
        if size <= _ALWAYS_FITS_BYTES or self._max_batch_bytes is None:
            return
        builder = BatchBuilder()
        for key, value in records:
            builder.append(key, value, (), 0)
        max_bytes = self._max_batch_bytes(now.image)
        if builder.size_bytes > max_bytes:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The offsets take {builder.size_bytes} bytes as records, and max.message.bytes of"
                f" the internal topic is {max_bytes}: send them in several requests.",
            )

    def _forget_topics(
        self, command: ForgetTopics, caller: Caller[int] | None, now: GroupDecisionContext
    ) -> GroupOutcome:
        partitions_by_group = self.offsets.groups_with(command.topics)
        records = [
            record
            for group_id, partitions in partitions_by_group.items()
            for record in self.offsets.tombstones(group_id, partitions)
        ]
        return Outcome(
            records,
            replies=reply_to(caller, len(records)),
            subjects=[offsets_subject(group_id) for group_id in partitions_by_group],
        )

    def _drop_unused(self, start: int, now: GroupDecisionContext) -> GroupOutcome:
        """Deletes unused offsets of some groups, beginning with the group at position `start`, and
        sets the deadline to continue."""
        groups = self._some_groups(start)
        records: list[LogRecord] = []
        subjects: list[Hashable] = []
        removed_groups = 0
        for group in groups:
            offset_tombstones, group_tombstones = self._unused(group, now)
            if offset_tombstones or group_tombstones:
                records += (*offset_tombstones, *group_tombstones)
                subjects += _all_subjects(group.group_id)
            removed_groups += bool(group_tombstones)
        if start + len(groups) < len(self.groups):
            # The positions of the next groups fall by the number of groups that are removed.
            next_start = start + len(groups) - removed_groups
            deadline = Deadline((RETENTION, next_start), _YIELD_MS)
        else:
            interval_ms = self._settings.offsets_retention_check_interval_ms
            deadline = Deadline((RETENTION, 0), interval_ms)
        return Outcome(records, deadlines=(deadline,), subjects=subjects)

    def _some_groups(self, start: int) -> list[Group]:
        groups: list[Group] = []
        offsets = 0
        for group in islice(self.groups.values(), start, start + _MAX_GROUPS_AT_ONCE):
            groups.append(group)
            offsets += len(self.offsets.of(group.group_id))
            if offsets >= _MAX_OFFSETS_AT_ONCE:
                break
        return groups

    def _unused(
        self, group: Group, now: GroupDecisionContext
    ) -> tuple[Sequence[LogRecord], Sequence[LogRecord]]:
        """Returns the tombstones of unused offsets, and of the group itself if nothing is left."""
        group_id = group.group_id
        retention_ms = self._settings.offsets_retention_minutes * _MS_PER_MINUTE
        expired = self.offsets.expired(group, retention_ms, now)
        offsets = self.offsets.tombstones(group_id, expired)
        stays = (
            len(expired) < len(self.offsets.of(group_id))
            or not _can_be_deleted(group)
            or self.offsets.has_open_transaction(group_id)
        )
        return offsets, () if stays else group.tombstones()

    # Administration

    def listings(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Returns all groups, or those in one of the states and of one of the types. The case of
        letters does not matter."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            listing
            for listing in (group.listing() for group in self.groups.values())
            if (not wanted_states or listing.state.lower() in wanted_states)
            and (not wanted_types or listing.type.lower() in wanted_types)
        ]

    def _describe(
        self,
        command: DescribeGroup,
        caller: Caller[GroupDescription] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        group_id = command.group_id
        group = self._existing(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group."
            )
        return Outcome(
            replies=reply_to(caller, group.description()), subjects=_all_subjects(group_id)
        )

    def _delete_group(
        self, command: DeleteGroup, caller: Caller[None] | None, now: GroupDecisionContext
    ) -> GroupOutcome:
        group = self._existing(command.group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        group_id = group.group_id
        offsets = self.offsets.tombstones(group_id, self.offsets.known(group_id))
        return Outcome(
            [*offsets, *group.tombstones()],
            replies=reply_to(caller, None),
            subjects=_all_subjects(group_id),
        )

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group


def _all_subjects(group_id: str) -> tuple[Hashable, ...]:
    return members_subject(group_id), offsets_subject(group_id)


def _session_deadlines(group: Group, commit: CommitOffsets) -> tuple[Deadline, ...]:
    """A commit renews the session of a classic member, unless the member should be waiting for its
    assignment."""
    if not isinstance(group, ClassicGroup) or commit.producer is not None:
        return ()
    member = group.members.get(commit.member_id)
    if member is None or group.state is State.COMPLETING_REBALANCE:
        return ()
    return (session_deadline(group.group_id, member),)


def _can_be_deleted(group: Group) -> bool:
    """Returns whether retention may delete the group: it has no members, and no client was given a
    member id to join it with."""
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending_joins)
