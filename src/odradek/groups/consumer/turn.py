"""One decision about one consumer group: a draft of it, and what follows.

A turn writes records and changes its draft alike, so that each step sees the steps before.
The draft is thrown away: applying the records is what changes the group. A turn that writes
nothing copies nothing, which is most heartbeats.

    deadline                                  set                            passes
    ("consumer", "session", group, member)    at each sign of life           the member is out
    ("consumer", "rebalance", group, member)  when it has to revoke          the member is out
    ("consumer", "join", group, member)       when a classic member is       the member is out
                                              told to join again
    ("consumer", "sync", group, member)       when a classic member joined   the member is out
"""

import logging
from collections.abc import Callable
from typing import Final

from odradek.config.consumer_group_settings import ConsumerGroupSettings
from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.consumer.assignors import ASSIGNORS, Subscriber
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    Profile,
    TopicIdPartition,
    check_reconciled,
    reconcile,
)
from odradek.groups.consumer.records import (
    PATTERN,
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
from odradek.groups.group import GroupChanged, GroupOutcome, members_of
from odradek.metadata import ClusterImage
from odradek.protocol.types import TopicId
from odradek.statemachine.machine import Caller, Deadline, LogRecord, Now, Outcome, Reply

logger = logging.getLogger("odradek.groups")

DEADLINES: Final = "consumer"
SESSION: Final = "session"
REBALANCE: Final = "rebalance"
JOIN: Final = "join"
SYNC: Final = "sync"


class Turn:
    def __init__(
        self, group: ConsumerGroup, image: ClusterImage, settings: GroupSettings, now: Now
    ) -> None:
        self.group = group
        self.image = image
        self.settings = settings
        self.now = now
        self.records: list[LogRecord] = []
        self.replies: list[Reply] = []
        self.deadlines: list[Deadline] = []
        self.events: list[GroupChanged] = []
        # What the member who speaks may know of (`ConsumerHeartbeat.may_describe`).
        self.may_describe: Callable[[str], bool] | None = None
        self._is_draft = False

    def outcome(self, caller: Caller | None, response: object) -> GroupOutcome:
        self.answer(caller, response)
        return Outcome(
            self.records,
            self.events,
            self.replies,
            self.deadlines,
            subjects=(members_of(self.group.group_id),),
        )

    def answer(self, caller: Caller | None, response: object) -> None:
        if caller is not None:
            self.replies.append(Reply(caller, response))

    def _draft(self) -> ConsumerGroup:
        if not self._is_draft:
            self.group = self.group.copy()
            self._is_draft = True
        return self.group

    @property
    def own_settings(self) -> ConsumerGroupSettings:
        """What this group is set to, or what the broker gives to all."""
        return ConsumerGroupSettings.of(self.settings, self.image.group_config(self.group.group_id))

    # Deadlines

    def set_deadline(self, kind: str, member_id: str, after_ms: int | None) -> None:
        self.deadlines.append(Deadline((DEADLINES, kind, self.group.group_id, member_id), after_ms))

    def expect_sign_of_life(self, member: ConsumerMember) -> None:
        classic = member.profile.classic
        after_ms = (
            self.own_settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        )
        self.set_deadline(SESSION, member.member_id, after_ms)

    # Members

    def update_profile(self, member: ConsumerMember, profile: Profile) -> bool:
        """Says whether the subscription changed: then the group has to be assigned anew."""
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
        """Refuses an expression that is wrong, before anything is changed because of it."""
        if pattern and pattern not in self.group.patterns:
            resolve(pattern, self.image, self.now)

    def _resolve(self, pattern: str) -> None:
        if pattern and pattern not in self.group.patterns:
            self.put_pattern(pattern, resolve(pattern, self.image, self.now, self.may_describe))

    def refresh_pattern(self, pattern: str) -> bool:
        """Resolves a pattern that is stale with the permissions of the member who speaks; says
        whether it stands for other topics now."""
        known = self.group.patterns.get(pattern)
        if self.may_describe is None or known is None or not is_stale(known, self.image, self.now):
            return False
        resolved = resolve(pattern, self.image, self.now, self.may_describe)
        self.put_pattern(pattern, resolved)
        return resolved.topics != known.topics

    def put_pattern(self, pattern: str, resolved: ResolvedPattern) -> None:
        self._draft().put_pattern(pattern, resolved)
        self.records.append(pattern_record(self.group.group_id, pattern, resolved))

    def _forget_pattern(self, pattern: str) -> None:
        """Unless another member uses it."""
        group = self.group
        if pattern in group.patterns and not any(
            member.profile.pattern == pattern for member in group.members.values()
        ):
            self._draft().put_pattern(pattern, None)
            self.records.append(tombstone(PATTERN, group.group_id, pattern))

    def put_member(self, member: ConsumerMember) -> None:
        """A member whose place changed: its epoch, state or partitions."""
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

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """The same instance under a new id: it takes over what the old one had."""
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
        logger.info(
            "group %s: epoch %d, members: %d", group.group_id, group.epoch, len(group.members)
        )
        group.metadata_hash = metadata_hash(group.subscribed_topics, self.image)
        self.records.append(group_record(group.group_id, group.epoch, group.metadata_hash))

    def assign_if_due(self) -> None:
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
        may_be_late: bool = False,
    ) -> ConsumerMember:
        group = self.group
        member_id, epoch = member.member_id, group.assignment_epoch
        target = group.target_of(member_id)
        after = reconcile(member, epoch, target, group.owners, owned, may_be_late=may_be_late)
        if after is member or after == member:
            return member
        check_reconciled(member, after, epoch, group.owners, group.story)
        self.put_member(after)
        if after.profile.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_deadline(REBALANCE, member_id, after.profile.rebalance_timeout_ms)
            elif member.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_deadline(REBALANCE, member_id, None)
        return after


def member_subscription(member: ConsumerMember | None) -> tuple[frozenset[str], str] | None:
    return None if member is None else (member.profile.topics, member.profile.pattern)


def known_assignors(settings: GroupSettings) -> list[str]:
    """Those of `group.consumer.assignors` that there are; the first is the default."""
    return [name for name in settings.group_consumer_assignors if name in ASSIGNORS] or [
        next(iter(ASSIGNORS))
    ]


def assignor_of(group: ConsumerGroup, settings: GroupSettings) -> str:
    known = known_assignors(settings)
    preferred = group.preferred_assignor()
    return preferred if preferred in known else known[0]
