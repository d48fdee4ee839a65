"""Decides for consumer groups: the kind of groups that plugs into `groups.machine`.

A heartbeat does everything: it joins, says what changed, reports what the member owns and
fetches what it shall own; with epoch -1 or -2 it leaves. The order of the checks is Kafka's:
UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH make a member give up everything and join again,
UNRELEASED_INSTANCE_ID and FENCED_INSTANCE_ID stop it.
"""

from collections.abc import Callable, Hashable
from typing import Final, cast

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import ClassicGroup
from odradek.groups.commands import ClassicCommand
from odradek.groups.consumer.classic_members import ClassicMembers
from odradek.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    ConsumerMemberDescription,
    DescribeConsumerGroup,
    JoinTogether,
    TopicsChanged,
)
from odradek.groups.consumer.group import ConsumerGroup, Images
from odradek.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOTHING,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    Profile,
)
from odradek.groups.consumer.migration import may_upgrade, remove_or_downgrade, upgrade
from odradek.groups.consumer.records import GROUP, KINDS, by_topic, read_key
from odradek.groups.consumer.subscriptions import (
    metadata_hash,
    resolve_again,
    subscribes_to_any,
    without_deleted,
)
from odradek.groups.consumer.turn import DEADLINES, REBALANCE, Turn, assignor_of, known_assignors
from odradek.groups.group import Group, GroupOutcome, Groups, members_of
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Now, Outcome, Reply

_NOTHING: Final[GroupOutcome] = Outcome()
_TIMES_FASTER: Final = 5


class ConsumerGroups:
    """`images` gives the cluster's topics as they are now."""

    commands = frozenset({ConsumerHeartbeat, JoinTogether, DescribeConsumerGroup, TopicsChanged})
    record_kinds = KINDS
    deadlines = DEADLINES

    def __init__(
        self,
        settings: GroupSettings,
        new_identifier: Callable[[], str],
        images: Images,
        *,
        is_guarded: bool = False,
    ) -> None:
        """`is_guarded`: there are access rules, so a new topic that matches a pattern is for those
        alone who may describe it. The next heartbeat of a member asks (`Turn.refresh_pattern`)."""
        self._is_guarded = is_guarded
        self._settings = settings
        self._new_identifier = new_identifier
        self._images = images
        self._classic_members = ClassicMembers(settings, new_identifier)

    def owns(self, group: Group) -> bool:
        return isinstance(group, ConsumerGroup)

    def decide(
        self, groups: Groups, command: object, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        if isinstance(command, ConsumerHeartbeat):
            self._check(command)
            if command.member_epoch < JOINING_EPOCH:
                return self._leave(groups, command, caller, now)
            return self._heartbeat(groups, command, caller, now)
        if isinstance(command, JoinTogether):
            return self._join_together(groups, command, now)
        if isinstance(command, DescribeConsumerGroup):
            description = self._describe(groups, command.group_id)
            return self._turn(_existing(groups, command.group_id), now).outcome(caller, description)
        return self._topics_changed(groups, cast(TopicsChanged, command), caller, now)

    def decide_classic(
        self, group: Group, command: ClassicCommand, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.decide(self._turn(group, now), command, caller)

    def _turn(self, group: ConsumerGroup, now: Now) -> Turn:
        return Turn(group, self._images(), self._settings, now)

    # Records

    def group_of(self, key: bytes) -> str:
        return read_key(key).group_id

    def replay(self, group: Group | None, key: bytes, value: bytes | None) -> Group | None:
        read = read_key(key)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return None
            group = ConsumerGroup(read.group_id, self._images)
        elif read.kind == GROUP and value is None:
            return None
        group.apply(read, value)
        return group

    # Heartbeats

    def _check(self, asked: ConsumerHeartbeat) -> None:
        epoch = asked.member_epoch
        if asked.makes_own_id or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
            _require(asked.member_id.strip(), "MemberId can't be empty.")
        _require(asked.group_id.strip(), "GroupId can't be empty.")
        for value, name in ((asked.instance_id, "InstanceId"), (asked.rack_id, "RackId")):
            _require(value is None or value.strip(), f"{name} can't be empty.")
        if epoch == JOINING_EPOCH:
            _require(
                asked.rebalance_timeout_ms != -1,
                "RebalanceTimeoutMs must be provided in first request.",
            )
            _require(
                asked.owned is not None and not asked.owned,
                "TopicPartitions must be empty when (re-)joining.",
            )
            _require(
                asked.topics is not None or asked.pattern is not None,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
                " when (re-)joining.",
            )
        elif epoch == STATIC_LEAVING_EPOCH:
            _require(asked.instance_id is not None, "InstanceId can't be null.")
        _require(epoch >= STATIC_LEAVING_EPOCH, "MemberEpoch is invalid.")
        known = known_assignors(self._settings)
        if asked.assignor is not None and asked.assignor not in known:
            raise ApiError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {asked.assignor} is not supported."
                f" Supported assignors: {', '.join(known)}.",
            )

    def _heartbeat(
        self, groups: Groups, asked: ConsumerHeartbeat, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        turn = self._find(groups, asked, now)
        before, is_changed = self._take_in(turn, asked)
        if is_changed:
            turn.bump_epoch()
        turn.assign_if_due()
        return turn.outcome(caller, self._reply(turn, asked, before))

    def _join_together(self, groups: Groups, command: JoinTogether, now: Now) -> GroupOutcome:
        """Takes all members in, makes one assignment, then answers each of them."""
        turn: Turn | None = None
        refusals: list[Reply] = []
        taken_in: list[tuple[ConsumerHeartbeat, Caller, ConsumerMember]] = []
        is_any_changed = False
        for asked, caller in command.joins:
            try:
                self._check(asked)
                turn = turn or self._find(groups, asked, now)
                before, is_changed = self._take_in(turn, asked)
            except ApiError as refusal:
                refusals.append(Reply(caller, refusal))
            else:
                taken_in.append((asked, caller, before))
                is_any_changed |= is_changed
        if turn is None:
            return Outcome(replies=refusals, subjects=(members_of(command.group_id),))
        if is_any_changed:
            turn.bump_epoch()
        turn.assign_if_due()
        for asked, caller, before in taken_in:
            turn.answer(caller, self._reply(turn, asked, before))
        turn.replies += refusals
        return turn.outcome(None, None)

    def _take_in(self, turn: Turn, asked: ConsumerHeartbeat) -> tuple[ConsumerMember, bool]:
        """Notes what the member says about itself. Returns it as it was before, and whether the
        group has to be assigned anew. Refuses before it changes anything."""
        self._check_room(turn.group, asked)
        turn.check_pattern(asked.pattern)
        before = self._member(turn, asked)
        turn.may_describe = asked.may_describe
        profile = _profile(before.profile, asked)
        is_changed = turn.update_profile(before, profile)
        return before, turn.refresh_pattern(profile.pattern) or is_changed

    def _reply(
        self, turn: Turn, asked: ConsumerHeartbeat, before: ConsumerMember
    ) -> ConsumerHeartbeatReply:
        """Brings the member as near to its target as it can get now, and says so."""
        member = turn.group.members[before.member_id]
        is_joining = asked.member_epoch == JOINING_EPOCH
        member = turn.reconcile(member, asked.owned, may_be_late=not is_joining)
        turn.expect_sign_of_life(member)
        is_told = (
            asked.member_epoch != before.epoch  # It joins, or an answer to it was lost.
            or _says_everything(asked)
            or member.assigned.keys() != before.assigned.keys()
        )
        return ConsumerHeartbeatReply(
            member.member_id,
            member.epoch,
            _interval_ms(turn, member),
            by_topic(member.assigned) if is_told else None,
        )

    def _find(self, groups: Groups, asked: ConsumerHeartbeat, now: Now) -> Turn:
        """The group, or one that begins with this member."""
        found = groups.get(asked.group_id)
        if isinstance(found, ConsumerGroup):
            return self._turn(found, now)
        if asked.member_epoch != JOINING_EPOCH:
            raise _missing(asked.group_id) if found is None else _not_found(asked.group_id)
        turn = self._turn(ConsumerGroup(asked.group_id, self._images), now)
        if isinstance(found, ClassicGroup):
            if found.is_empty:
                turn.records += found.tombstones()
            elif may_upgrade(found, self._settings):
                upgrade(turn, found)
            else:
                raise _not_found(asked.group_id)
        elif found is not None:
            raise _not_found(asked.group_id)
        return turn

    def _check_room(self, group: ConsumerGroup, asked: ConsumerHeartbeat) -> None:
        most = self._settings.group_consumer_max_size
        is_known = (
            asked.member_id in group.members or (asked.instance_id or "") in group.static_members
        )
        if len(group.members) >= most and not is_known:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def _member(self, turn: Turn, asked: ConsumerHeartbeat) -> ConsumerMember:
        """Who speaks. A new member is not in the group yet."""
        group = turn.group
        member_id = asked.member_id or self._new_identifier()
        joins = asked.member_epoch == JOINING_EPOCH
        if joins and asked.instance_id is not None:
            holder = group.static_members.get(asked.instance_id)
            if holder is None:
                return group.members.get(member_id) or ConsumerMember(member_id)
            old = group.members[holder]
            if old.member_id == member_id and not old.has_left_for_now:
                return old  # The same client again: the answer to its first request was lost.
            if old.profile.classic is None and not old.has_left_for_now:
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {asked.instance_id} cannot join"
                    f" the group because the instance id is owned by {holder} member.",
                )
            return turn.replace_static(old, member_id)
        if joins and member_id not in group.members:
            return ConsumerMember(member_id)
        member = group.check_member(member_id, asked.instance_id)
        if not joins:
            _check_epoch(member, asked)
        return member

    # Leaving

    def _leave(
        self, groups: Groups, asked: ConsumerHeartbeat, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        turn = self._turn(_existing(groups, asked.group_id), now)
        member = turn.group.check_member(asked.member_id, asked.instance_id)
        if asked.member_epoch == STATIC_LEAVING_EPOCH:
            # Its session runs on: until it ends, its partitions wait for it. Whoever comes back
            # in its place goes on as if it had had them all along.
            turn.put_member(
                member._replace(
                    epoch=STATIC_LEAVING_EPOCH,
                    state=MemberState.STABLE,
                    assigned=dict.fromkeys(member.assigned, 0),
                    to_revoke=NOTHING,
                )
            )
            turn.set_deadline(REBALANCE, member.member_id, None)
        else:
            remove_or_downgrade(turn, member)
        reply = ConsumerHeartbeatReply(member.member_id, asked.member_epoch)
        return turn.outcome(caller, reply)

    # Topics

    def _topics_changed(
        self, groups: Groups, change: TopicsChanged, caller: Caller | None, now: Now
    ) -> GroupOutcome:
        outcomes = [
            self._look_at_topics(group, change.names, now).outcome(None, None)
            for group in groups.values()
            if isinstance(group, ConsumerGroup) and group.members
        ]
        changed = [outcome for outcome in outcomes if outcome.records]
        return Outcome(
            [record for outcome in changed for record in outcome.records],
            replies=() if caller is None else (Reply(caller, len(changed)),),
            subjects=[subject for outcome in changed for subject in outcome.subjects or ()],
        )

    def _look_at_topics(self, group: ConsumerGroup, names: frozenset[str], now: Now) -> Turn:
        """Raises the group's epoch if what it reads has changed: the next heartbeat assigns."""
        turn = self._turn(group, now)
        subscribes = subscribes_to_any(group, names)
        for pattern, known in group.patterns.items():
            if self._is_guarded:
                resolved = without_deleted(known, names, turn.image)
            else:
                resolved = resolve_again(pattern, known, names, turn.image, now)
            if resolved != known:
                turn.put_pattern(pattern, resolved)
                subscribes = True
        if subscribes:
            after = metadata_hash(turn.group.subscribed_topics, turn.image)
            if after != group.metadata_hash:
                turn.bump_epoch()
        return turn

    # Time

    def expire(self, groups: Groups, key: Hashable, now: Now) -> GroupOutcome:
        match key:
            case (_, str(kind), str(group_id), str(member_id)):
                group = groups.get(group_id)
                if not isinstance(group, ConsumerGroup) or member_id not in group.members:
                    return _NOTHING
                member = group.members[member_id]
                if kind == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
                    return _NOTHING
                turn = self._turn(group, now)
                remove_or_downgrade(turn, member)
                return turn.outcome(None, None)
        return _NOTHING

    def loaded(self, group: Group, now: Now) -> GroupOutcome:
        """Sessions begin anew; topics may have changed while nobody looked."""
        assert isinstance(group, ConsumerGroup)
        if not group.members:
            return _NOTHING
        names = frozenset(self._images().topics) | group.subscribed_topics
        turn = self._look_at_topics(group, names, now)
        for member in group.members.values():
            turn.expect_sign_of_life(member)
            unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
            if unrevoked and member.profile.classic is None:
                timeout_ms = member.profile.rebalance_timeout_ms
                turn.set_deadline(REBALANCE, member.member_id, timeout_ms)
        return turn.outcome(None, None)

    # Administration

    def _describe(self, groups: Groups, group_id: str) -> ConsumerGroupDescription:
        group = _existing(groups, group_id)
        return ConsumerGroupDescription(
            group_id,
            group.state.value,
            group.epoch,
            group.assignment_epoch,
            assignor_of(group, self._settings),
            tuple(
                ConsumerMemberDescription(member, group.target_of(member_id))
                for member_id, member in group.members.items()
            ),
        )


def _interval_ms(turn: Turn, member: ConsumerMember) -> int:
    """Whoever waits for others to let go asks more often: it has nothing to lose."""
    interval_ms = turn.own_settings.heartbeat_interval_ms
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return max(interval_ms // _TIMES_FASTER, 1)
    return interval_ms


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _missing(group_id: str) -> ApiError:
    """In Kafka's words, because its tools look for them."""
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _not_found(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _existing(groups: Groups, group_id: str) -> ConsumerGroup:
    group = groups.get(group_id)
    if group is None:
        raise _missing(group_id)
    if not isinstance(group, ConsumerGroup):
        raise _not_found(group_id)
    return group


def _check_epoch(member: ConsumerMember, asked: ConsumerHeartbeat) -> None:
    """The epoch before is taken too, if what the member owns fits: its answer may be lost."""
    if asked.member_epoch == member.epoch:
        return
    owns_no_more = asked.owned is not None and all(each in member.assigned for each in asked.owned)
    if asked.member_epoch > member.epoch:
        how = "greater"
    elif asked.member_epoch == member.previous_epoch and owns_no_more:
        return
    else:
        how = "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({asked.member_epoch}) than the one"
        f" known by the group coordinator ({member.epoch})."
        " The member must abandon all its partitions and rejoin.",
    )


def _profile(before: Profile, asked: ConsumerHeartbeat) -> Profile:
    """What the member says now; what it leaves out stays."""
    return Profile(
        before.instance_id if asked.instance_id is None else asked.instance_id,
        before.rack_id if asked.rack_id is None else asked.rack_id,
        asked.client_id,
        asked.client_host,
        before.topics if asked.topics is None else asked.topics,
        before.pattern if asked.pattern is None else asked.pattern,
        before.rebalance_timeout_ms
        if asked.rebalance_timeout_ms == -1
        else asked.rebalance_timeout_ms,
        before.assignor if asked.assignor is None else asked.assignor,
    )


def _says_everything(asked: ConsumerHeartbeat) -> bool:
    """As a member does that joins, or had an error and is not sure what was heard."""
    return (
        asked.rebalance_timeout_ms != -1
        and (asked.topics is not None or asked.pattern is not None)
        and asked.owned is not None
    )
