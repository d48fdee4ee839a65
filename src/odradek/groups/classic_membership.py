"""Decides about the requests of classic members: JoinGroup, SyncGroup, Heartbeat and LeaveGroup,
and about deadlines of classic groups that pass.

Each request is checked against the group as it is. It is either refused, or worked out on a draft
(`classic_rebalance.ClassicDecision`). The order of the checks is Kafka's, because clients act on
the error they get: after UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION a member joins as a new one,
after FENCED_INSTANCE_ID it stops, after REBALANCE_IN_PROGRESS it rejoins.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.classic_member import ClassicMember
from odradek.groups.classic_rebalance import (
    JOIN,
    NEW_MEMBER_TIMEOUT_MS,
    SESSION,
    SYNC,
    ClassicDecision,
)
from odradek.groups.commands import (
    ClassicCommand,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from odradek.groups.group import GroupDecisionContext, GroupOutcome, members_subject
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Deadline, LogRecord, Outcome, reply_to

_NO_CHANGE: Final[GroupOutcome] = Outcome()


class ClassicMembership:
    """Decides about the commands of classic groups for `GroupMachine`. It has no state."""

    def __init__(self, settings: GroupSettings, new_identifier: Callable[[], str]) -> None:
        self._settings = settings
        self._new_identifier = new_identifier

    def decide(
        self,
        group: ClassicGroup | None,
        command: ClassicCommand,
        caller: Caller[Any] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        if not command.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        if isinstance(command, JoinGroup):
            return self._join(group, command, caller, now)
        if isinstance(command, LeaveGroup):
            return self._leave(group, command, caller, now)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(command, SyncGroup):
            return self._sync(group, command, caller, now)
        return _heartbeat(group, command, caller)

    # JoinGroup

    def _join(
        self,
        group: ClassicGroup | None,
        command: JoinGroup,
        caller: Caller[JoinReply] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        check_session_timeout(command.session_timeout_ms, self._settings)
        if group is None and command.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_new_group = group is None
        draft = ClassicGroup(command.group_id, now.wall_ms) if group is None else group.copy()
        decision = ClassicDecision(draft, self._settings, now)
        if is_new_group:
            # Every group in memory must be in the log as well.
            decision.records.append(draft.record())
        if not self._has_room_for(draft, command.member_id):
            self._refuse_for_size(decision, command, caller)
            return decision.outcome()
        if not draft.supports(command.protocol_type, command.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not command.member_id:
            self._join_as_new(decision, command, caller)
        elif command.member_id in draft.pending_joins and command.group_instance_id is None:
            self._add(decision, command, command.member_id, caller)
        else:
            self._join_again(decision, command, caller)
        return decision.outcome()

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Returns whether `group.max.size` allows the member. While a rebalance is prepared, only
        members that have joined count, so that a group that is too large loses those that join
        last."""
        max_size = self._settings.group_max_size
        if group.state is State.PREPARING_REBALANCE:
            joined = [member for member in group.members.values() if member.awaiting_join]
            return len(joined) < max_size or any(member.member_id == member_id for member in joined)
        if group.is_empty:
            return True
        return member_id in group.members or len(group.members) < max_size

    def _refuse_for_size(
        self, decision: ClassicDecision, command: JoinGroup, caller: Caller[JoinReply] | None
    ) -> None:
        member = decision.group.members.get(command.member_id)
        if member is not None:
            decision.remove(member)
        elif command.member_id:
            decision.forget_pending(command.member_id)
        decision.complete_join_if_all_joined()
        decision.answer(caller, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))

    def _join_as_new(
        self, decision: ClassicDecision, command: JoinGroup, caller: Caller[JoinReply] | None
    ) -> None:
        instance_id = command.group_instance_id
        name = command.client_id if instance_id is None else instance_id
        member_id = f"{name}-{self._new_identifier()}"
        if instance_id is not None:
            holder = decision.group.static_members.get(instance_id)
            if holder is None:
                self._add(decision, command, member_id, caller)
            else:
                _replace_static(
                    decision, command, decision.group.members[holder], member_id, caller
                )
        elif command.requires_member_id:
            # The client joins again with this id, or the id is forgotten after the session timeout.
            decision.group.pending_joins[member_id] = None
            decision.set_session(member_id, command.session_timeout_ms)
            decision.answer(caller, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(decision, command, member_id, caller)

    def _add(
        self,
        decision: ClassicDecision,
        command: JoinGroup,
        member_id: str,
        caller: Caller[JoinReply] | None,
    ) -> None:
        group = decision.group
        if group.initial_delay is not None:
            group.initial_delay = group.initial_delay._replace(has_new_member=True)
        member = _member(command, member_id)._replace(is_new=True, awaiting_join=caller)
        group.add(member, command.protocol_type)
        decision.renew_session(member, NEW_MEMBER_TIMEOUT_MS)
        decision.rebalance(f"{member_id} joins{_because(command.reason)}")

    def _join_again(
        self, decision: ClassicDecision, command: JoinGroup, caller: Caller[JoinReply] | None
    ) -> None:
        group = decision.group
        member = group.check_member(command.member_id, command.group_instance_id)
        if group.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_unchanged = member.protocols == command.protocols
        if group.state is State.COMPLETING_REBALANCE:
            keeps_generation = is_unchanged
        else:
            # The leader rejoins to trigger a rebalance: it may know of new partitions.
            keeps_generation = (
                group.state is State.STABLE
                and is_unchanged
                and group.leader_id != command.member_id
            )
        if keeps_generation:
            # The reply to its last JoinGroup may have been lost.
            reply = decision.current_generation(member.member_id, with_members=True)
            decision.answer(caller, reply)
            return
        decision.answer(member.awaiting_join, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, ""))
        decision.update(
            member._replace(
                protocols=command.protocols,
                session_timeout_ms=command.session_timeout_ms,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                awaiting_join=caller,
            )
        )
        decision.rebalance(f"{member.member_id} joins again{_because(command.reason)}")

    # SyncGroup

    def _sync(
        self,
        group: ClassicGroup,
        command: SyncGroup,
        caller: Caller[SyncReply] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        if group.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(command.member_id, command.group_instance_id)
        if command.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        for sent, expected in (
            (command.protocol_type, group.protocol_type),
            (command.protocol_name, group.protocol_name),
        ):
            if sent is not None and expected is not None and sent != expected:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is State.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        decision = ClassicDecision(group.copy(), self._settings, now)
        decision.note_sync(member.member_id)
        if group.state is State.STABLE:
            reply = SyncReply(
                ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment
            )
            decision.answer(caller, reply)
            return decision.outcome()
        decision.answer(member.awaiting_sync, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
        decision.update(member._replace(awaiting_sync=caller))
        if member.member_id == group.leader_id:
            decision.assign(command.assignments)
            _check_size(decision.records, command.max_record_bytes)
        return decision.outcome()

    # LeaveGroup

    def _leave(
        self,
        group: ClassicGroup | None,
        command: LeaveGroup,
        caller: Caller[list[ErrorCode]] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        if group is None:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in command.members]
            return Outcome(
                replies=reply_to(caller, errors), subjects=(members_subject(command.group_id),)
            )
        decision = ClassicDecision(group.copy(), self._settings, now)
        errors = [_remove(decision, leaving) for leaving in command.members]
        gone = [member_id for member_id in group.members if member_id not in decision.group.members]
        if decision.group.state is State.PREPARING_REBALANCE:
            decision.complete_join_if_all_joined()
        elif gone:
            decision.rebalance(f"{', '.join(gone)} left")
        decision.answer(caller, errors)
        return decision.outcome()

    # Deadlines

    def expire(self, group: ClassicGroup, key: Hashable, now: GroupDecisionContext) -> GroupOutcome:
        decision = ClassicDecision(group.copy(), self._settings, now)
        match key:
            case (kind, _, str(member_id)) if kind == SESSION:
                _end_session(decision, member_id)
            case (kind, _) if kind == JOIN and group.state is State.PREPARING_REBALANCE:
                if decision.group.initial_delay is None:
                    decision.complete_join()
                else:
                    decision.initial_delay_passed(decision.group.initial_delay)
            case (kind, _) if kind == SYNC and group.pending_syncs:
                missing = list(group.pending_syncs)
                for member_id in missing:
                    decision.remove(decision.group.members[member_id])
                decision.rebalance(f"{', '.join(missing)} did not synchronise in time")
            case _:
                return _NO_CHANGE
        return decision.outcome()

    def after_load(self, group: ClassicGroup, now: GroupDecisionContext) -> GroupOutcome:
        if group.state is State.COMPLETING_REBALANCE:
            reason = "its last rebalance was not finished"
        elif len(group.members) > self._settings.group_max_size:
            reason = "the group is larger than group.max.size"
        else:
            sessions = [
                session_deadline(group.group_id, member) for member in group.members.values()
            ]
            return Outcome(deadlines=sessions)
        decision = ClassicDecision(group.copy(), self._settings, now)
        for member in group.members.values():
            decision.renew_session(member)
        decision.rebalance(reason)
        return decision.outcome()


def check_session_timeout(session_timeout_ms: int, settings: GroupSettings) -> None:
    """Raises `ApiError` unless the session timeout of a JoinGroup request is within the limits.

    They also hold for members of a consumer group that use the classic protocol
    (`consumer.classic_members`).
    """
    min_ms = settings.group_min_session_timeout_ms
    max_ms = settings.group_max_session_timeout_ms
    if not min_ms <= session_timeout_ms <= max_ms:
        raise ApiError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"The session timeout must be between {min_ms} and {max_ms} ms"
            " (group.min.session.timeout.ms, group.max.session.timeout.ms).",
        )


def _member(command: JoinGroup, member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id,
        command.group_instance_id,
        command.client_id,
        command.client_host,
        command.session_timeout_ms,
        command.rebalance_timeout_ms,
        command.protocols,
    )


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _replace_static(
    decision: ClassicDecision,
    command: JoinGroup,
    old: ClassicMember,
    member_id: str,
    caller: Caller[JoinReply] | None,
) -> None:
    """A static member rejoined under a new member id: its old member id is fenced."""
    group = decision.group
    leader_before = group.leader_id
    decision.answer(old.awaiting_join, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    decision.answer(old.awaiting_sync, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    decision.set_session(old.member_id, None)
    member = _member(command, member_id)._replace(assignment=old.assignment, awaiting_join=caller)
    group.replace_static(old.member_id, member)
    decision.renew_session(member)
    must_rebalance = group.state is not State.STABLE or group.owes_revocation(old)
    if must_rebalance or group.select_protocol() != group.protocol_name:
        # A leader that computes an assignment knows only the old member id.
        decision.rebalance(f"{command.group_instance_id} came back as {member_id}")
        return
    member = decision.update(member._replace(awaiting_join=None))
    decision.records.append(group.record())
    reply = decision.current_generation(member_id, with_members=command.can_skip_assignment)
    if member_id != group.leader_id:
        decision.answer(caller, reply)
    elif command.can_skip_assignment:
        decision.answer(caller, reply._replace(skip_assignment=True))
    else:
        # An older client that learns that it leads would assign again, so it gets its old id
        # as the leader's.
        decision.answer(caller, reply._replace(leader=leader_before or ""))


def _check_size(records: Iterable[LogRecord], max_bytes: int | None) -> None:
    """Refuses the leader's assignments if they make the group's record, which has the metadata and
    the assignments of all members, too large. Nothing has changed then: the leader is removed
    unless it sends smaller ones in time. The error is Kafka's."""
    size = sum(len(key) + len(value or b"") for key, value in records)
    if max_bytes is not None and size > max_bytes:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The group's record would have {size} bytes, max.message.bytes allows {max_bytes}.",
        )


def _heartbeat(
    group: ClassicGroup, command: Heartbeat, caller: Caller[ErrorCode] | None
) -> GroupOutcome:
    """Changes only a deadline, so the group is not copied.

    The reply waits for no record. It only says whether a rebalance is in progress, which is never
    written. If the generation itself is lost in a fail-over, the next coordinator refuses the
    member's next heartbeat and the member rejoins. If the reply waited for a slow replica, a
    healthy member would miss its session timeout.
    """
    member = group.check_member(command.member_id, command.group_instance_id)
    if command.generation_id != group.generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    is_rebalancing = group.state is State.PREPARING_REBALANCE
    error = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
    return Outcome(
        replies=reply_to(caller, error),
        deadlines=(session_deadline(group.group_id, member),),
        subjects=(),
    )


def session_deadline(group_id: str, member: ClassicMember) -> Deadline:
    return Deadline((SESSION, group_id, member.member_id), member.session_timeout_ms)


def _remove(decision: ClassicDecision, leaving: LeavingMember) -> ErrorCode:
    """Removes a member. An administrator names a static member by its instance id alone."""
    group = decision.group
    member_id = leaving.member_id
    if member_id in group.pending_joins:
        decision.forget_pending(member_id)
        return ErrorCode.NONE
    if not member_id:
        member_id = group.static_members.get(leaving.group_instance_id or "", "")
    try:
        decision.remove(group.check_member(member_id, leaving.group_instance_id))
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _end_session(decision: ClassicDecision, member_id: str) -> None:
    group = decision.group
    member = group.members.get(member_id)
    if member is None:
        group.remove(member_id)
    elif not member.is_waiting:
        decision.remove(member)
        if group.state is not State.PREPARING_REBALANCE:
            decision.rebalance(f"{member_id} was silent for its session timeout")
            return
    if group.state is State.PREPARING_REBALANCE and group.all_have_joined:
        decision.complete_join()
