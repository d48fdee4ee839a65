"""A decision about one consumer group: a draft of the group, and the outcome.

`ConsumerDecision` writes records and changes its draft in the same way, so that each step sees the
steps before. The draft is then discarded: applying the records is what changes the group. A
decision that writes nothing makes no draft, which holds for most heartbeats.

    deadline                                  set                              when it passes
    ("consumer", "session", group, member)    at each request of the member    the member is
    ("consumer", "rebalance", group, member)  when it has to revoke            removed, in each
    ("consumer", "join", group, member)       when a classic member is         case
                                              told to rejoin
    ("consumer", "sync", group, member)       when a classic member joined
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.config.consumer_group_settings import ConsumerGroupSettings
from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_rebalance import LOGGER
from odradek.groups.consumer.assignors import ASSIGNORS, Subscriber
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    Profile,
    TopicIdPartition,
)
from odradek.groups.consumer.reconciliation import reconcile
from odradek.groups.consumer.records import (
    PATTERN,
    TARGET,
    ResolvedPattern,
    current_record,
    group_record,
    member_record,
    member_tombstones,
    pattern_record,
    target_epoch_record,
    target_record,
    tombstone,
)
from odradek.groups.consumer.subscriptions import (
    is_stale,
    metadata_hash,
    resolve,
    topics_to_assign,
)
from odradek.groups.group import GroupChanged, GroupDecisionContext, GroupOutcome, members_subject
from odradek.protocol.types import TopicId
from odradek.statemachine.machine import Caller, Deadline, LogLine, LogRecord, Outcome, R, Reply

DEADLINES: Final = "consumer"
SESSION: Final = "session"
REBALANCE: Final = "rebalance"
JOIN: Final = "join"
SYNC: Final = "sync"


class ConsumerDecision:
    """One decision about one consumer group."""

    def __init__(
        self, group: ConsumerGroup, settings: GroupSettings, now: GroupDecisionContext
    ) -> None:
        self.group = group
        self.settings = settings
        self.now = now
        self.image = now.image
        self.records: list[LogRecord] = []
        self.replies: list[Reply[Any]] = []
        self.deadlines: list[Deadline] = []
        self.events: list[GroupChanged] = []
        self.log_lines: list[LogLine] = []
        # Returns whether the member that sent the request may describe a topic
        # (`ConsumerHeartbeat.may_describe`).
        self.may_describe: Callable[[str], bool] | None = None
        self._is_draft = False

    def outcome(self) -> GroupOutcome:
        if self._is_draft:
            self.group.check()
        return Outcome(
            self.records,
            self.events,
            self.replies,
            self.deadlines,
            subjects=(members_subject(self.group.group_id),),
            log_lines=self.log_lines,
        )

    def outcome_for(self, caller: Caller[R] | None, response: R) -> GroupOutcome:
        """Returns the outcome with a reply to the caller."""
        self.answer(caller, response)
        return self.outcome()

    def answer(self, caller: Caller[R] | None, response: R) -> None:
        if caller is not None:
            self.replies.append(Reply(caller, response))

    def _draft(self) -> ConsumerGroup:
        if not self._is_draft:
            self.group = self.group.copy()
            self._is_draft = True
        return self.group

    @property
    def own_settings(self) -> ConsumerGroupSettings:
        """The settings of this group, or the broker's for all groups."""
        return ConsumerGroupSettings.of(self.settings, self.image.group_config(self.group.group_id))

    # Deadlines

    def set_deadline(self, kind: str, member_id: str, after_ms: int | None) -> None:
        self.deadlines.append(Deadline((DEADLINES, kind, self.group.group_id, member_id), after_ms))

    def renew_session(self, member: ConsumerMember) -> None:
        classic = member.profile.classic
        after_ms = (
            self.own_settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        )
        self.set_deadline(SESSION, member.member_id, after_ms)

    # Members

    def update_profile(self, member: ConsumerMember, profile: Profile) -> bool:
        """Returns whether the subscription changed: then a new target assignment is needed."""
        group = self.group
        before = group.members.get(member.member_id)
        if before is not None and before.profile == profile:
            return False
        group = self._draft()
        self._resolve(profile.pattern)
        member = member._replace(profile=profile)
        group.put_member(member)
        self.records.append(member_record(group.group_id, member))
        old = member_subscription(before)
        if before is not None:
            self._forget_pattern(before.profile.pattern)
        return old != member_subscription(member)

    def check_pattern(self, pattern: str | None) -> None:
        """Refuses an invalid regular expression before the draft is changed."""
        if pattern and pattern not in self.group.patterns:
            resolve(pattern, self.image, self.now)

    def _resolve(self, pattern: str) -> None:
        if pattern and pattern not in self.group.patterns:
            self.put_pattern(pattern, resolve(pattern, self.image, self.now, self.may_describe))

    def refresh_pattern(self, pattern: str) -> bool:
        """Resolves a stale pattern again, with the permissions of the member that sent the request.
        Returns whether it matches other topics now."""
        before = self.group.patterns.get(pattern)
        if (
            self.may_describe is None
            or before is None
            or not is_stale(before, self.image, self.now)
        ):
            return False
        resolved = resolve(pattern, self.image, self.now, self.may_describe)
        self.put_pattern(pattern, resolved)
        return resolved.topics != before.topics

    def put_pattern(self, pattern: str, resolved: ResolvedPattern) -> None:
        self._draft().put_pattern(pattern, resolved)
        self.records.append(pattern_record(self.group.group_id, pattern, resolved))

    def _forget_pattern(self, pattern: str) -> None:
        """Removes a pattern unless a member uses it."""
        group = self.group
        if pattern in group.patterns and not any(
            member.profile.pattern == pattern for member in group.members.values()
        ):
            self._draft().put_pattern(pattern, None)
            self.records.append(tombstone(PATTERN, group.group_id, pattern))

    def put_member(self, member: ConsumerMember) -> None:
        """Replaces a member whose epoch, state or current assignment changed."""
        self._draft().put_member(member)
        self.records.append(current_record(self.group.group_id, member))

    def remove(self, member: ConsumerMember) -> None:
        group = self._draft()
        group.remove_member(member.member_id)
        group.targets.pop(member.member_id, None)
        self.records += member_tombstones(group.group_id, member.member_id)
        self._forget_pattern(member.profile.pattern)
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            self.set_deadline(kind, member.member_id, None)

    def mend(self, contradiction: str) -> None:
        """Makes the group consistent again after its log was read, with a new target assignment.

        The log may lack records in the middle: a power cut took them while the file with the
        recovery points was lost, so recovery could not tell the hole from the gaps of compaction.
        What a later record says then holds. A member that believes something else is fenced by its
        epoch, and joins again.
        """
        group = self._draft()
        arguments = (group.group_id, contradiction)
        self.log_lines.append(
            LogLine(
                LOGGER,
                "group %s: its log lacks records, so partitions are assigned anew: %s",
                arguments,
            )
        )
        for member in list(group.members.values()):
            instance_id = member.profile.instance_id
            if (
                instance_id is not None
                and group.static_members.get(instance_id) != member.member_id
            ):
                self.remove(member)
                continue
            mended = _with_own_partitions(member, group.owners)
            if mended != member:
                self.put_member(mended)
        for member_id in list(group.targets):
            del group.targets[member_id]
            self.records.append(tombstone(TARGET, group.group_id, member_id))
        epochs = [member.epoch for member in group.members.values()]
        group.epoch = max(group.epoch, group.assignment_epoch, *epochs)
        self.bump_epoch()
        self._assign()

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Gives a static member a new member id, with the assignments of the old one."""
        group = self._draft()
        target = group.target_of(old.member_id)
        self.remove(old._replace(profile=old.profile._replace(pattern="")))
        new = old._replace(member_id=member_id, epoch=0, previous_epoch=0)
        group.targets[member_id] = target
        self.records.append(member_record(group.group_id, new))
        self.records.append(target_record(group.group_id, member_id, target))
        self.put_member(new)
        return new

    # The group

    def bump_epoch(self) -> None:
        group = self._draft()
        group.epoch += 1
        arguments = (group.group_id, group.epoch, len(group.members))
        self.log_lines.append(LogLine(LOGGER, "group %s: epoch %d, members: %d", arguments))
        group.metadata_hash = metadata_hash(group.subscribed_topics, self.image)
        self.records.append(group_record(group.group_id, group.epoch, group.metadata_hash))

    def assign_if_due(self) -> None:
        """Computes the target assignment if the group epoch was bumped since the last one."""
        if self.group.epoch > self.group.assignment_epoch:
            self._assign()

    def _assign(self) -> None:
        group = self._draft()
        topics = topics_to_assign(sorted(group.subscribed_topics), self.image)
        ids: dict[frozenset[str], frozenset[TopicId]] = {}
        subscribers = {}
        for member_id, member in group.members.items():
            names = group.topics_of(member)
            if names not in ids:
                known = (self.image.topics.get(name) for name in names)
                ids[names] = frozenset(topic.topic_id for topic in known if topic is not None)
            subscribers[member_id] = Subscriber(
                ids[names],
                member.profile.instance_id,
                member.profile.rack_id,
                group.target_of(member_id),
            )
        assignor = ASSIGNORS[assignor_of(group, self.settings)]
        for member_id, target in assignor(subscribers, topics).items():
            if target != group.targets.get(member_id):
                group.targets[member_id] = target
                self.records.append(target_record(group.group_id, member_id, target))
        group.assignment_epoch = group.epoch
        written = target_epoch_record(group.group_id, group.epoch, self.now.wall_ms)
        self.records.append(written)

    def reconcile(
        self,
        member: ConsumerMember,
        owned: frozenset[TopicIdPartition] | None,
        *,
        may_lag: bool = False,
    ) -> ConsumerMember:
        group = self.group
        member_id, epoch = member.member_id, group.assignment_epoch
        target = group.target_of(member_id)
        after = reconcile(member, epoch, target, group.owners, owned, may_lag=may_lag)
        if after is member or after == member:
            return member
        group.check_step(member, after)
        self.put_member(after)
        if after.profile.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_deadline(REBALANCE, member_id, after.profile.rebalance_timeout_ms)
            elif member.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_deadline(REBALANCE, member_id, None)
        return after


def _with_own_partitions(
    member: ConsumerMember, owners: Mapping[TopicIdPartition, str]
) -> ConsumerMember:
    """Returns the member without the partitions that another one owns."""
    assigned, to_revoke = (
        {
            partition: epoch
            for partition, epoch in partitions.items()
            if owners.get(partition) == member.member_id
        }
        for partitions in (member.assigned, member.to_revoke)
    )
    state = member.state
    if (state is MemberState.UNREVOKED_PARTITIONS) != bool(to_revoke):
        state = MemberState.UNREVOKED_PARTITIONS if to_revoke else MemberState.STABLE
    return member._replace(state=state, assigned=assigned, to_revoke=to_revoke)


def member_subscription(member: ConsumerMember | None) -> tuple[frozenset[str], str] | None:
    return None if member is None else (member.profile.topics, member.profile.pattern)


def known_assignors(settings: GroupSettings) -> list[str]:
    """Returns the supported ones of `group.consumer.assignors`; the first is the default."""
    return [name for name in settings.group_consumer_assignors if name in ASSIGNORS] or [
        next(iter(ASSIGNORS))
    ]


def assignor_of(group: ConsumerGroup, settings: GroupSettings) -> str:
    assignors = known_assignors(settings)
    preferred = group.preferred_assignor()
    return preferred if preferred in assignors else assignors[0]
