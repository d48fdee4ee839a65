"""Decides about consumer groups (KIP-848). It plugs into `groups.machine`.

A heartbeat does everything: a member joins with it, reports what it owns and what changed, receives
its current assignment, and leaves with it (epoch -1, or -2 for a static member that will return).
The order of the checks is Kafka's, because clients act on the error they get: after
UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH a member gives up its partitions and rejoins, after
UNRELEASED_INSTANCE_ID and FENCED_INSTANCE_ID it stops.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import ClassicGroup
from odradek.groups.commands import ClassicCommand
from odradek.groups.consumer.classic_members import ClassicMembers
from odradek.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    ConsumerMemberDescription,
    DescribeConsumerGroup,
    JoinResult,
    JoinTogether,
    TopicsChanged,
)
from odradek.groups.consumer.decision import (
    DEADLINES,
    REBALANCE,
    ConsumerDecision,
    assignor_of,
    known_assignors,
)
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.heartbeats import (
    check_epoch,
    check_heartbeat,
    is_complete,
    updated_profile,
)
from odradek.groups.consumer.member import (
    JOINING_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from odradek.groups.consumer.migration import may_upgrade, remove_or_downgrade, upgrade
from odradek.groups.consumer.records import GROUP, KINDS, by_topic, read_key
from odradek.groups.consumer.subscriptions import (
    metadata_hash,
    resolve_again,
    subscribes_to_any,
    without_deleted,
)
from odradek.groups.group import (
    Group,
    GroupDecisionContext,
    GroupDecisions,
    GroupOutcome,
    Groups,
    members_subject,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Outcome, Reply, reply_to

_NO_CHANGE: Final[GroupOutcome] = Outcome()
_UNRELEASED_SPEEDUP: Final = 5


class ConsumerGroups:
    """Decides for all consumer groups of a machine (a `GroupTypePlugin`). It has no state."""

    record_kinds = KINDS
    deadline_key_prefix = DEADLINES

    def __init__(
        self,
        settings: GroupSettings,
        new_identifier: Callable[[], str],
        *,
        has_authorizer: bool = False,
    ) -> None:
        """`has_authorizer`: a new topic that matches a pattern is only for members that may
        describe it. The next heartbeat of a member finds out (`refresh_pattern`)."""
        self._has_authorizer = has_authorizer
        self._settings = settings
        self._new_identifier = new_identifier
        self._classic_members = ClassicMembers(settings, new_identifier)

    def add_decisions(self, decisions: GroupDecisions, groups: Groups) -> None:
        decisions.on(ConsumerHeartbeat, partial(self._heartbeat_or_leave, groups))
        decisions.on(JoinTogether, partial(self._join_together, groups))
        decisions.on(DescribeConsumerGroup, partial(self._describe, groups))
        decisions.on(TopicsChanged, partial(self._topics_changed, groups))

    def is_type_of(self, group: Group) -> bool:
        return isinstance(group, ConsumerGroup)

    def decide_classic(
        self,
        group: Group,
        command: ClassicCommand,
        caller: Caller[Any] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.decide(self._decision(group, now), command, caller)

    def _decision(self, group: ConsumerGroup, now: GroupDecisionContext) -> ConsumerDecision:
        return ConsumerDecision(group, self._settings, now)

    # Records

    def group_of(self, key: bytes) -> str:
        return read_key(key).group_id

    def replay(self, group: Group | None, key: bytes, value: bytes | None) -> Group | None:
        read = read_key(key)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return None
            group = ConsumerGroup(read.group_id)
        elif read.kind == GROUP and value is None:
            return None
        group.apply(read, value)
        return group

    # Heartbeats

    def _heartbeat_or_leave(
        self,
        groups: Groups,
        heartbeat: ConsumerHeartbeat,
        caller: Caller[ConsumerHeartbeatReply] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        check_heartbeat(heartbeat, known_assignors(self._settings))
        if heartbeat.member_epoch < JOINING_EPOCH:
            return self._leave(groups, heartbeat, caller, now)
        return self._heartbeat(groups, heartbeat, caller, now)

    def _heartbeat(
        self,
        groups: Groups,
        heartbeat: ConsumerHeartbeat,
        caller: Caller[ConsumerHeartbeatReply] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        decision = self._find(groups, heartbeat, now)
        before, is_changed = self._update_member(decision, heartbeat)
        if is_changed:
            decision.bump_epoch()
        decision.assign_if_due()
        return decision.outcome_for(caller, self._reply(decision, heartbeat, before))

    def _join_together(
        self,
        groups: Groups,
        command: JoinTogether,
        caller: Caller[None] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        """Adds all members, computes one target assignment, then answers each member."""
        decision: ConsumerDecision | None = None
        error_replies: list[Reply[JoinResult]] = []
        joined: list[tuple[ConsumerHeartbeat, Caller[JoinResult], ConsumerMember]] = []
        is_any_changed = False
        for heartbeat, member_caller in command.joins:
            try:
                check_heartbeat(heartbeat, known_assignors(self._settings))
                decision = decision or self._find(groups, heartbeat, now)
                before, is_changed = self._update_member(decision, heartbeat)
            except ApiError as error:
                error_replies.append(Reply(member_caller, error))
            else:
                joined.append((heartbeat, member_caller, before))
                is_any_changed |= is_changed
        if decision is None or not joined:
            # A classic group is not upgraded for members that it refuses.
            return Outcome(replies=error_replies, subjects=(members_subject(command.group_id),))
        if is_any_changed:
            decision.bump_epoch()
        decision.assign_if_due()
        for heartbeat, member_caller, before in joined:
            decision.answer(member_caller, self._reply(decision, heartbeat, before))
        decision.replies += error_replies
        return decision.outcome_for(caller, None)

    def _update_member(
        self, decision: ConsumerDecision, heartbeat: ConsumerHeartbeat
    ) -> tuple[ConsumerMember, bool]:
        """Takes over what the member says about itself. Returns the member as it was before, and
        whether a new target assignment is needed. Refuses before it changes anything."""
        decision.group.check_room(
            heartbeat.member_id, heartbeat.instance_id, self._settings.group_consumer_max_size
        )
        decision.check_pattern(heartbeat.pattern)
        before = self._member(decision, heartbeat)
        decision.may_describe = heartbeat.may_describe
        profile = updated_profile(before.profile, heartbeat)
        is_changed = decision.update_profile(before, profile)
        return before, decision.refresh_pattern(profile.pattern) or is_changed

    def _reply(
        self, decision: ConsumerDecision, heartbeat: ConsumerHeartbeat, before: ConsumerMember
    ) -> ConsumerHeartbeatReply:
        """Reconciles the member with its target as far as possible now, and returns the reply."""
        member = decision.group.members[before.member_id]
        is_joining = heartbeat.member_epoch == JOINING_EPOCH
        member = decision.reconcile(member, heartbeat.owned, may_lag=not is_joining)
        decision.renew_session(member)
        needs_assignment = (
            # It joins, or a reply to it was lost.
            heartbeat.member_epoch != before.epoch
            or is_complete(heartbeat)
            or member.assigned.keys() != before.assigned.keys()
        )
        return ConsumerHeartbeatReply(
            member.member_id,
            member.epoch,
            _interval_ms(decision, member),
            by_topic(member.assigned) if needs_assignment else None,
        )

    def _find(
        self, groups: Groups, heartbeat: ConsumerHeartbeat, now: GroupDecisionContext
    ) -> ConsumerDecision:
        """Returns a decision about the group, which is created if this member joins as its
        first."""
        group = groups.get(heartbeat.group_id)
        if isinstance(group, ConsumerGroup):
            return self._decision(group, now)
        if heartbeat.member_epoch != JOINING_EPOCH:
            raise (
                _not_found(heartbeat.group_id) if group is None else _wrong_type(heartbeat.group_id)
            )
        decision = self._decision(ConsumerGroup(heartbeat.group_id), now)
        if isinstance(group, ClassicGroup):
            if group.is_empty:
                decision.records += group.tombstones()
            elif may_upgrade(group, self._settings):
                upgrade(decision, group)
            else:
                raise _wrong_type(heartbeat.group_id)
        elif group is not None:
            raise _wrong_type(heartbeat.group_id)
        return decision

    def _member(self, decision: ConsumerDecision, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Returns the member that sent the heartbeat. A new one is not in the group yet."""
        group = decision.group
        member_id = heartbeat.member_id or self._new_identifier()
        is_joining = heartbeat.member_epoch == JOINING_EPOCH
        if is_joining and heartbeat.instance_id is not None:
            holder = group.static_members.get(heartbeat.instance_id)
            if holder is None:
                return group.members.get(member_id) or ConsumerMember(member_id)
            old = group.members[holder]
            if old.member_id == member_id and not old.has_left_temporarily:
                return old  # The same client: the reply to its first heartbeat was lost.
            if old.profile.classic is None and not old.has_left_temporarily:
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {heartbeat.instance_id} cannot"
                    f" join the group because the instance id is owned by {holder} member.",
                )
            return decision.replace_static(old, member_id)
        if is_joining and member_id not in group.members:
            return ConsumerMember(member_id)
        member = group.check_member(member_id, heartbeat.instance_id)
        if not is_joining:
            check_epoch(member, heartbeat)
        return member

    # Leaving

    def _leave(
        self,
        groups: Groups,
        heartbeat: ConsumerHeartbeat,
        caller: Caller[ConsumerHeartbeatReply] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        decision = self._decision(_existing(groups, heartbeat.group_id), now)
        member = decision.group.check_member(heartbeat.member_id, heartbeat.instance_id)
        if heartbeat.member_epoch == STATIC_LEAVING_EPOCH:
            # Its partitions are kept for it until its session expires. When it returns, it counts
            # as if it had owned them all the time.
            decision.put_member(
                member._replace(
                    epoch=STATIC_LEAVING_EPOCH,
                    state=MemberState.STABLE,
                    assigned=dict.fromkeys(member.assigned, 0),
                    to_revoke=NO_PARTITIONS,
                )
            )
            decision.set_deadline(REBALANCE, member.member_id, None)
        else:
            remove_or_downgrade(decision, member)
        reply = ConsumerHeartbeatReply(member.member_id, heartbeat.member_epoch)
        return decision.outcome_for(caller, reply)

    # Topics

    def _topics_changed(
        self,
        groups: Groups,
        change: TopicsChanged,
        caller: Caller[int] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        outcomes = [
            self._check_subscribed_topics(group, change.names, now).outcome()
            for group in groups.values()
            if isinstance(group, ConsumerGroup) and group.members
        ]
        changed = [outcome for outcome in outcomes if outcome.records]
        return Outcome(
            [record for outcome in changed for record in outcome.records],
            replies=reply_to(caller, len(changed)),
            subjects=[subject for outcome in changed for subject in outcome.subjects or ()],
            log_lines=[line for outcome in changed for line in outcome.log_lines],
        )

    def _check_subscribed_topics(
        self, group: ConsumerGroup, names: frozenset[str], now: GroupDecisionContext
    ) -> ConsumerDecision:
        """Bumps the group epoch if the topics that the group subscribes to have changed. The next
        heartbeat then computes a target assignment."""
        decision = self._decision(group, now)
        is_affected = subscribes_to_any(group, names)
        for pattern, before in group.patterns.items():
            if self._has_authorizer:
                resolved = without_deleted(before, names, decision.image)
            else:
                resolved = resolve_again(pattern, before, names, decision.image, now)
            if resolved != before:
                decision.put_pattern(pattern, resolved)
                is_affected = True
        if is_affected:
            new_hash = metadata_hash(decision.group.subscribed_topics, decision.image)
            if new_hash != group.metadata_hash:
                decision.bump_epoch()
        return decision

    # Time

    def expire(self, groups: Groups, key: Hashable, now: GroupDecisionContext) -> GroupOutcome:
        match key:
            case (_, str(kind), str(group_id), str(member_id)):
                group = groups.get(group_id)
                if not isinstance(group, ConsumerGroup) or member_id not in group.members:
                    return _NO_CHANGE
                member = group.members[member_id]
                if kind == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
                    return _NO_CHANGE
                decision = self._decision(group, now)
                remove_or_downgrade(decision, member)
                return decision.outcome()
        return _NO_CHANGE

    def after_load(self, group: Group, now: GroupDecisionContext) -> GroupOutcome:
        """Sessions begin again, and topics may have changed while no coordinator ran."""
        assert isinstance(group, ConsumerGroup)
        if not group.members and not group.targets:
            return _NO_CHANGE
        contradiction = next(group.contradictions(), None)
        if contradiction is None:
            names = frozenset(now.image.topics) | group.subscribed_topics
            decision = self._check_subscribed_topics(group, names, now)
        else:
            decision = self._decision(group, now)
            decision.mend(contradiction)
        for member in decision.group.members.values():
            decision.renew_session(member)
            is_unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
            if is_unrevoked and member.profile.classic is None:
                timeout_ms = member.profile.rebalance_timeout_ms
                decision.set_deadline(REBALANCE, member.member_id, timeout_ms)
        return decision.outcome()

    # Administration

    def _describe(
        self,
        groups: Groups,
        command: DescribeConsumerGroup,
        caller: Caller[ConsumerGroupDescription] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        group = _existing(groups, command.group_id)
        description = ConsumerGroupDescription(
            command.group_id,
            group.state.value,
            group.epoch,
            group.assignment_epoch,
            assignor_of(group, self._settings),
            tuple(
                ConsumerMemberDescription(member, group.target_of(member_id))
                for member_id, member in group.members.items()
            ),
        )
        return self._decision(group, now).outcome_for(caller, description)


def _interval_ms(decision: ConsumerDecision, member: ConsumerMember) -> int:
    """A member that waits for partitions of other members sends heartbeats more often, so that it
    gets them soon after they are released."""
    interval_ms = decision.own_settings.heartbeat_interval_ms
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return max(interval_ms // _UNRELEASED_SPEEDUP, 1)
    return interval_ms


def _not_found(group_id: str) -> ApiError:
    """The words are Kafka's, because its tools look for them."""
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _wrong_type(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _existing(groups: Groups, group_id: str) -> ConsumerGroup:
    group = groups.get(group_id)
    if group is None:
        raise _not_found(group_id)
    if not isinstance(group, ConsumerGroup):
        raise _wrong_type(group_id)
    return group
