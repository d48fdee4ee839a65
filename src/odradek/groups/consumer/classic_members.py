"""Members of the classic protocol in a consumer group: they are served without barriers.

JoinGroup is a heartbeat that says everything, and is answered at once: there is no leader, and
the generation is the member's epoch. SyncGroup hands over what the member has been given.
Heartbeat says REBALANCE_IN_PROGRESS while there is something for the member to fetch or to
give up; it then has its rebalance timeout to join again.
"""

from collections.abc import Callable

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import CONSUMER_PROTOCOL
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
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import ClassicSide, ConsumerMember, MemberState, Profile
from odradek.groups.consumer.migration import (
    classic_assignment,
    downgrade_for,
    owned_partitions,
    remove_or_downgrade,
)
from odradek.groups.consumer.turn import JOIN, SYNC, Turn
from odradek.groups.group import GroupOutcome
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_versioned,
)
from odradek.statemachine.machine import Caller


class ClassicMembers:
    def __init__(self, settings: GroupSettings, new_identifier: Callable[[], str]) -> None:
        self._settings = settings
        self._new_identifier = new_identifier

    def decide(self, turn: Turn, command: ClassicCommand, caller: Caller | None) -> GroupOutcome:
        if isinstance(command, JoinGroup):
            return self._join(turn, command, caller)
        if isinstance(command, SyncGroup):
            return turn.outcome(caller, _sync(turn, command))
        if isinstance(command, LeaveGroup):
            return turn.outcome(caller, _leave(turn, command))
        return turn.outcome(caller, _heartbeat(turn, command))

    def _join(self, turn: Turn, command: JoinGroup, caller: Caller | None) -> GroupOutcome:
        self._check(turn.group, command)
        if command.requires_member_id and not command.member_id and not command.group_instance_id:
            member_id = f"{command.client_id}-{self._new_identifier()}"
            return turn.outcome(caller, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = _subscription(command)
        member = self._member(turn, command)
        profile = Profile(
            command.group_instance_id,
            subscription.rack_id,
            command.client_id,
            command.client_host,
            frozenset(subscription.topics),
            "",
            command.rebalance_timeout_ms,
            None,
            ClassicSide(command.session_timeout_ms, command.protocols),
        )
        if turn.update_profile(member, profile):
            turn.bump_epoch()
        if downgrade_for(turn, member, caller):
            return turn.outcome(None, None)
        turn.assign_if_due()
        owned = owned_partitions(subscription.owned_partitions, turn.image)
        member = turn.reconcile(turn.group.members[member.member_id], owned)
        turn.expect_sign_of_life(member)
        turn.set_deadline(JOIN, member.member_id, None)
        turn.set_deadline(SYNC, member.member_id, command.rebalance_timeout_ms)
        name = command.protocols[0].name
        reply = JoinReply(ErrorCode.NONE, member.member_id, member.epoch, CONSUMER_PROTOCOL, name)
        return turn.outcome(caller, reply)

    def _check(self, group: ConsumerGroup, command: JoinGroup) -> None:
        settings = self._settings
        lowest, highest = (
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
        )
        if not lowest <= command.session_timeout_ms <= highest:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        is_known = (
            command.member_id in group.members
            or (command.group_instance_id or "") in group.static_members
        )
        if len(group.members) >= settings.group_consumer_max_size and not is_known:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not _supports(group, command):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _member(self, turn: Turn, command: JoinGroup) -> ConsumerMember:
        group = turn.group
        instance_id = command.group_instance_id
        if instance_id is not None and command.member_id:
            return group.check_member(command.member_id, instance_id)
        if instance_id is not None:
            member_id = f"{instance_id}-{self._new_identifier()}"
            holder = group.static_members.get(instance_id)
            if holder is not None:
                return turn.replace_static(group.members[holder], member_id)
            return ConsumerMember(member_id)
        member_id = command.member_id or f"{command.client_id}-{self._new_identifier()}"
        return group.members.get(member_id) or ConsumerMember(member_id)


def _supports(group: ConsumerGroup, command: JoinGroup) -> bool:
    """Whether all classic members have a protocol in common, with this one: so that they could
    go back to a classic group."""
    if command.protocol_type != CONSUMER_PROTOCOL:
        return False
    common = {each.name for each in command.protocols}
    for member_id, member in group.members.items():
        if member.profile.classic is not None and member_id != command.member_id:
            common &= {each.name for each in member.profile.classic.protocols}
    return bool(common)


def _subscription(command: JoinGroup) -> ConsumerProtocolSubscription:
    try:
        return decode_versioned(ConsumerProtocolSubscription, command.protocols[0].metadata)
    except MalformedMessage as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    member = group.check_member(member_id, instance_id)
    if member.profile.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} does not use the classic protocol.",
        )
    return member, member.profile.classic


def _sync(turn: Turn, command: SyncGroup) -> SyncReply:
    group = turn.group
    member, classic = _classic_member(group, command.member_id, command.group_instance_id)
    if command.generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    name = classic.protocols[0].name
    for said, is_so in ((command.protocol_type, CONSUMER_PROTOCOL), (command.protocol_name, name)):
        if said is not None and said != is_so:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    turn.expect_sign_of_life(member)
    turn.set_deadline(SYNC, member.member_id, None)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        turn.set_deadline(JOIN, member.member_id, member.profile.rebalance_timeout_ms)
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    assignment = classic_assignment(member.assigned, classic.protocols[0].metadata, turn.image)
    return SyncReply(ErrorCode.NONE, CONSUMER_PROTOCOL, name, assignment)


def _heartbeat(turn: Turn, command: Heartbeat) -> ErrorCode:
    group = turn.group
    member, _ = _classic_member(group, command.member_id, command.group_instance_id)
    if command.generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    turn.expect_sign_of_life(member)
    if not _has_to_join(group, member):
        return ErrorCode.NONE
    turn.set_deadline(JOIN, member.member_id, member.profile.rebalance_timeout_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    waits_for = group.target_of(member.member_id) - member.assigned.keys()
    return all(group.owners.get(each) in (None, member.member_id) for each in waits_for)


def _leave(turn: Turn, command: LeaveGroup) -> list[ErrorCode]:
    """Members go, or an administrator removes them: also those of the new protocol, who find out
    with their next heartbeat and join again if they are still there."""
    errors: list[ErrorCode] = []
    gone: dict[str, ConsumerMember] = {}
    for leaving in command.members:
        try:
            member = _leaving_member(turn.group, leaving)
            if member.member_id in gone:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as refusal:
            errors.append(refusal.code)
        else:
            errors.append(ErrorCode.NONE)
            gone[member.member_id] = member
    if gone:
        remove_or_downgrade(turn, *gone.values())
    return errors


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """An administrator names a static member by its instance id alone."""
    instance_id = leaving.group_instance_id
    member_id = leaving.member_id or group.static_members.get(instance_id or "", "")
    return group.check_member(member_id, instance_id)
