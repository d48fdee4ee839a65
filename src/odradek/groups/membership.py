"""Who may join, synchronise, beat and leave, and what follows when a deadline passes.

Each request is checked against the group as it is, and either refused or worked out on a
draft (`rebalance.Turn`). The order of the checks is Kafka's, because clients act on the error
they get: UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION make a member start anew,
FENCED_INSTANCE_ID stops it for good, REBALANCE_IN_PROGRESS makes it join again.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import ClassicGroup, Member, State
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
from odradek.groups.group import GroupOutcome, members_of
from odradek.groups.rebalance import JOIN, NEW_MEMBER_TIMEOUT_MS, SESSION, SYNC, Turn
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Deadline, LogRecord, Now, Outcome, Reply

_NOTHING: Final[GroupOutcome] = Outcome()


class Membership:
    def __init__(self, settings: GroupSettings, new_identifier: Callable[[], str]) -> None:
        self._settings = settings
        self._new_identifier = new_identifier

    def decide(
        self, group: ClassicGroup | None, command: ClassicCommand, caller: Caller | None, now: Now
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
        self, group: ClassicGroup | None, command: JoinGroup, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        self._check_session_timeout(command.session_timeout_ms)
        if group is None and command.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_new_group = group is None
        draft = ClassicGroup(command.group_id, now.wall_ms) if group is None else group.copy()
        turn = Turn(draft, self._settings, now)
        if is_new_group:
            # So that a group in memory is always one that the log knows.
            turn.records.append(draft.record())
        if not self._has_room_for(draft, command.member_id):
            self._turn_away(turn, command, caller)
            return turn.outcome()
        if not draft.supports(command.protocol_type, command.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not command.member_id:
            self._join_as_new(turn, command, caller)
        elif command.member_id in draft.pending_joins and command.group_instance_id is None:
            self._add(turn, command, command.member_id, caller)
        else:
            self._join_again(turn, command, caller)
        return turn.outcome()

    def _check_session_timeout(self, session_timeout_ms: int) -> None:
        lowest = self._settings.group_min_session_timeout_ms
        highest = self._settings.group_max_session_timeout_ms
        if not lowest <= session_timeout_ms <= highest:
            raise ApiError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"The session timeout must be between {lowest} and {highest} ms"
                " (group.min.session.timeout.ms, group.max.session.timeout.ms).",
            )

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """While a rebalance is prepared, those who have joined count: so a group that is too
        large sheds whoever comes last."""
        largest = self._settings.group_max_size
        if group.state is State.PREPARING_REBALANCE:
            joined = [member for member in group.members.values() if member.awaiting_join]
            return len(joined) < largest or any(one.member_id == member_id for one in joined)
        if group.is_empty:
            return True
        return member_id in group.members or len(group.members) < largest

    def _turn_away(self, turn: Turn, command: JoinGroup, caller: Caller | None) -> None:
        member = turn.group.members.get(command.member_id)
        if member is not None:
            turn.remove(member)
        elif command.member_id:
            turn.forget_pending(command.member_id)
        turn.complete_join_if_all_are_there()
        turn.answer(caller, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))

    def _join_as_new(self, turn: Turn, command: JoinGroup, caller: Caller | None) -> None:
        instance_id = command.group_instance_id
        name = command.client_id if instance_id is None else instance_id
        member_id = f"{name}-{self._new_identifier()}"
        if instance_id is not None:
            holder = turn.group.static_members.get(instance_id)
            if holder is None:
                self._add(turn, command, member_id, caller)
            else:
                _replace_static(turn, command, turn.group.members[holder], member_id, caller)
        elif command.requires_member_id:
            # It comes again with this id, or is forgotten after its session timeout.
            turn.group.pending_joins[member_id] = None
            turn.set_session(member_id, command.session_timeout_ms)
            turn.answer(caller, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(turn, command, member_id, caller)

    def _add(self, turn: Turn, command: JoinGroup, member_id: str, caller: Caller | None) -> None:
        group = turn.group
        if group.initial_delay is not None:
            group.initial_delay = group.initial_delay._replace(member_came=True)
        member = _member(command, member_id)._replace(is_new=True, awaiting_join=caller)
        group.add(member, command.protocol_type)
        turn.expect_sign_of_life(member, NEW_MEMBER_TIMEOUT_MS)
        turn.rebalance(f"{member_id} joins{_because(command.reason)}")

    def _join_again(self, turn: Turn, command: JoinGroup, caller: Caller | None) -> None:
        group = turn.group
        member = group.check_member(command.member_id, command.group_instance_id)
        if group.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        unchanged = member.protocols == command.protocols
        if group.state is State.COMPLETING_REBALANCE:
            may_stay = unchanged
        else:
            # The leader asks for a rebalance by joining: it may know of new partitions.
            may_stay = (
                group.state is State.STABLE and unchanged and group.leader_id != command.member_id
            )
        if may_stay:
            # Its last answer may have been lost: it gets the generation it is in.
            reply = turn.current_generation(member.member_id, tell_members=True)
            turn.answer(caller, reply)
            return
        turn.answer(member.awaiting_join, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, ""))
        turn.update(
            member._replace(
                protocols=command.protocols,
                session_timeout_ms=command.session_timeout_ms,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                awaiting_join=caller,
            )
        )
        turn.rebalance(f"{member.member_id} joins again{_because(command.reason)}")

    # SyncGroup

    def _sync(
        self, group: ClassicGroup, command: SyncGroup, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        if group.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(command.member_id, command.group_instance_id)
        if command.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        for said, is_so in (
            (command.protocol_type, group.protocol_type),
            (command.protocol_name, group.protocol_name),
        ):
            if said is not None and is_so is not None and said != is_so:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is State.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        turn = Turn(group.copy(), self._settings, now)
        turn.has_synchronised(member.member_id)
        if group.state is State.STABLE:
            reply = SyncReply(
                ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment
            )
            turn.answer(caller, reply)
            return turn.outcome()
        turn.answer(member.awaiting_sync, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
        turn.update(member._replace(awaiting_sync=caller))
        if member.member_id == group.leader_id:
            turn.hand_round(command.assignments)
            _check_size(turn.records, command.largest_record)
        return turn.outcome()

    # LeaveGroup

    def _leave(
        self, group: ClassicGroup | None, command: LeaveGroup, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        if group is None:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in command.members]
            return Outcome(
                replies=() if caller is None else (Reply(caller, errors),),
                subjects=(members_of(command.group_id),),
            )
        turn = Turn(group.copy(), self._settings, now)
        errors = [_remove(turn, leaving) for leaving in command.members]
        gone = [member_id for member_id in group.members if member_id not in turn.group.members]
        if turn.group.state is State.PREPARING_REBALANCE:
            turn.complete_join_if_all_are_there()
        elif gone:
            turn.rebalance(f"{', '.join(gone)} left")
        turn.answer(caller, errors)
        return turn.outcome()

    # Deadlines

    def expire(self, group: ClassicGroup, key: Hashable, now: Now) -> GroupOutcome:
        turn = Turn(group.copy(), self._settings, now)
        match key:
            case (kind, _, str(member_id)) if kind == SESSION:
                _end_session(turn, member_id)
            case (kind, _) if kind == JOIN and group.state is State.PREPARING_REBALANCE:
                if turn.group.initial_delay is None:
                    turn.complete_join()
                else:
                    turn.initial_delay_passed(turn.group.initial_delay)
            case (kind, _) if kind == SYNC and group.pending_syncs:
                late = list(group.pending_syncs)
                for member_id in late:
                    turn.remove(turn.group.members[member_id])
                turn.rebalance(f"{', '.join(late)} did not synchronise in time")
            case _:
                return _NOTHING
        return turn.outcome()

    def loaded(self, group: ClassicGroup, now: Now) -> GroupOutcome:
        if len(group.members) <= self._settings.group_max_size:
            sessions = [session_deadline(group.group_id, each) for each in group.members.values()]
            return Outcome(deadlines=sessions)
        turn = Turn(group.copy(), self._settings, now)
        for member in group.members.values():
            turn.expect_sign_of_life(member)
        turn.rebalance("the group is larger than group.max.size")
        return turn.outcome()


def _member(command: JoinGroup, member_id: str) -> Member:
    return Member(
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
    turn: Turn, command: JoinGroup, old: Member, member_id: str, caller: Caller | None
) -> None:
    """The instance came back: whoever still speaks under its old id is fenced."""
    group = turn.group
    leader_before = group.leader_id
    turn.answer(old.awaiting_join, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    turn.answer(old.awaiting_sync, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    turn.set_session(old.member_id, None)
    member = _member(command, member_id)._replace(assignment=old.assignment, awaiting_join=caller)
    group.replace_static(old.member_id, member)
    turn.expect_sign_of_life(member)
    must_rebalance = group.state is not State.STABLE or group.owes_a_round(old)
    if must_rebalance or group.select_protocol() != group.protocol_name:
        # While the leader works on an assignment it knows the old id alone: begin again.
        turn.rebalance(f"{command.group_instance_id} came back as {member_id}")
        return
    member = turn.update(member._replace(awaiting_join=None))
    turn.records.append(group.record())
    reply = turn.current_generation(member_id, tell_members=command.can_skip_assignment)
    if member_id != group.leader_id:
        turn.answer(caller, reply)
    elif command.can_skip_assignment:
        turn.answer(caller, reply._replace(skip_assignment=True))
    else:
        # An older client that hears it leads would assign anew: it hears of its old id.
        turn.answer(caller, reply._replace(leader=leader_before or ""))


def _check_size(records: Iterable[LogRecord], largest: int | None) -> None:
    """Refuses what the leader hands in if the group's record, which has all members with their
    metadata and assignments, becomes larger than allowed. Nothing has changed then: the leader is
    removed unless it synchronises in time with less. The error is Kafka's."""
    size = sum(len(key) + len(value or b"") for key, value in records)
    if largest is not None and size > largest:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The group's record would have {size} bytes, max.message.bytes allows {largest}.",
        )


def _heartbeat(group: ClassicGroup, command: Heartbeat, caller: Caller | None) -> GroupOutcome:
    """Changes nothing but a deadline: the group is not copied.

    The answer waits for no record. It says only whether a rebalance is under way, which is never
    written, and if the generation itself is lost in a fail-over, the next coordinator refuses the
    member's next heartbeat and the member joins again. If the answer did wait for a slow replica,
    a healthy member would miss its session timeout.
    """
    member = group.check_member(command.member_id, command.group_instance_id)
    if command.generation_id != group.generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    rebalancing = group.state is State.PREPARING_REBALANCE
    error = ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE
    return Outcome(
        replies=() if caller is None else (Reply(caller, error),),
        deadlines=(session_deadline(group.group_id, member),),
        subjects=(),
    )


def session_deadline(group_id: str, member: Member) -> Deadline:
    return Deadline((SESSION, group_id, member.member_id), member.session_timeout_ms)


def _remove(turn: Turn, leaving: LeavingMember) -> ErrorCode:
    """An administrator removes a static member by its instance id alone."""
    group = turn.group
    member_id = leaving.member_id
    if member_id in group.pending_joins:
        turn.forget_pending(member_id)
        return ErrorCode.NONE
    if not member_id:
        member_id = group.static_members.get(leaving.group_instance_id or "", "")
    try:
        turn.remove(group.check_member(member_id, leaving.group_instance_id))
    except ApiError as refusal:
        return refusal.code
    return ErrorCode.NONE


def _end_session(turn: Turn, member_id: str) -> None:
    group = turn.group
    member = group.members.get(member_id)
    if member is None:
        group.remove(member_id)
    elif not member.is_waiting:
        turn.remove(member)
        if group.state is not State.PREPARING_REBALANCE:
            turn.rebalance(f"{member_id} was silent for its session timeout")
            return
    if group.state is State.PREPARING_REBALANCE and group.all_have_joined:
        turn.complete_join()
