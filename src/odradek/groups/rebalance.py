"""One decision about one classic group: a draft of the group, and what follows from it.

A turn collects answers, records and deadlines while it works on the draft; `outcome` hands
all of it over at once. The two barriers of a rebalance are here, `prepare` and
`complete_join` for the one, `hand_round` for the other; who may ask for what is in
`membership`.

    deadline                          set                                      passes
    ("session", group, member)        at each sign of life                     the member is out
    ("join", group)                   when a rebalance begins                  those who came go on
    ("sync", group)                   when everybody has joined                those who did not
                                                                               synchronise are out
"""

import logging
from typing import Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import ClassicGroup, InitialDelay, Member, State
from odradek.groups.commands import JoinReply, SyncReply
from odradek.groups.group import GroupChanged, GroupOutcome, members_of
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Deadline, LogRecord, Now, Outcome, Reply
from odradek.wording import counted

logger = logging.getLogger("odradek.groups")

SESSION: Final = "session"
JOIN: Final = "join"
SYNC: Final = "sync"

# A new member has no id to send heartbeats with, and its connection is silent while it waits.
# If its client gave up and came again, the old one must not stay for ever.
NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
# Whoever was given an id comes back with it at once. A first generation without it would last
# until the heartbeats of those who are in it, seconds later.
PENDING_JOINS_TIMEOUT_MS: Final = 100


class Turn:
    def __init__(self, group: ClassicGroup, settings: GroupSettings, now: Now) -> None:
        """`group` is a draft: it is changed, and becomes the group when the turn is applied."""
        self.group = group
        self.settings = settings
        self.now = now
        self.records: list[LogRecord] = []
        self._replies: list[Reply] = []
        self._deadlines: list[Deadline] = []
        self._known_story = group.story

    def outcome(self) -> GroupOutcome:
        for line in self.group.story:
            if line not in self._known_story:
                # Without the time, which the log gives it anyway.
                logger.info("group %s: %s", self.group.group_id, line.partition(" ")[2])
        return Outcome(
            self.records,
            (GroupChanged(self.group),),
            self._replies,
            self._deadlines,
            subjects=(members_of(self.group.group_id),),
        )

    def answer(self, caller: Caller | None, response: object) -> None:
        if caller is not None:
            self._replies.append(Reply(caller, response))

    # Deadlines

    def expect_sign_of_life(self, member: Member, timeout_ms: int | None = None) -> None:
        after_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.set_session(member.member_id, after_ms)

    def set_session(self, member_id: str, after_ms: int | None) -> None:
        self._deadlines.append(Deadline((SESSION, self.group.group_id, member_id), after_ms))

    def _set(self, kind: str, after_ms: int | None) -> None:
        self._deadlines.append(Deadline((kind, self.group.group_id), after_ms))

    # Members

    def update(self, member: Member) -> Member:
        self.group.members[member.member_id] = member
        return member

    def answer_join(self, member: Member, reply: JoinReply) -> Member:
        """Answers the member's JoinGroup, if it waits for one."""
        if member.awaiting_join is None:
            return member
        self.answer(member.awaiting_join, reply)
        return self.update(member._replace(awaiting_join=None))

    def answer_sync(self, member: Member, reply: SyncReply) -> Member:
        """Answers the member's SyncGroup, if it waits for one. From now on its time runs."""
        if member.awaiting_sync is None:
            return member
        self.answer(member.awaiting_sync, reply)
        self.expect_sign_of_life(member)
        return self.update(member._replace(awaiting_sync=None))

    def remove(self, member: Member) -> None:
        """Whoever waits in its name is told that it is not a member: a live client joins anew."""
        member = self.answer_join(member, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(member, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove(member.member_id)
        self.set_session(member.member_id, None)

    def forget_pending(self, member_id: str) -> None:
        self.group.remove(member_id)
        self.set_session(member_id, None)

    def current_generation(self, member_id: str, *, tell_members: bool) -> JoinReply:
        group = self.group
        return JoinReply(
            ErrorCode.NONE,
            member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            group.joined_members() if tell_members and member_id == group.leader_id else (),
        )

    # The first barrier

    def rebalance(self, why: str) -> None:
        """Begins a rebalance; one that is under way goes on if this was all it waited for."""
        if self.group.state is State.PREPARING_REBALANCE:
            self.complete_join_if_all_are_there()
        else:
            self.prepare(why)

    def complete_join_if_all_are_there(self) -> None:
        group = self.group
        preparing = group.state is State.PREPARING_REBALANCE
        if preparing and group.initial_delay is None and group.all_have_joined:
            self.complete_join()

    def prepare(self, why: str) -> None:
        group = self.group
        if group.state is State.COMPLETING_REBALANCE:
            # The assignment that was asked for is no longer wanted.
            self._hand_round(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._set(SYNC, None)
        is_first = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE, why, self.now.wall_ms)
        if is_first:
            delay_ms = self.settings.group_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(
                delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)
            )
            self._set(JOIN, delay_ms)
        elif group.all_have_joined:
            self.complete_join()
        else:
            self._set(JOIN, group.rebalance_timeout_ms)

    def initial_delay_passed(self, waited: InitialDelay) -> None:
        """If somebody came meanwhile, others may follow: waits again, within the rebalance
        timeout."""
        if not waited.member_came or waited.remaining_ms == 0:
            self._complete_first_join()
            return
        delay_ms = min(self.settings.group_initial_rebalance_delay_ms, waited.remaining_ms)
        remaining_ms = max(waited.remaining_ms - waited.delay_ms, 0)
        self.group.initial_delay = InitialDelay(delay_ms, remaining_ms)
        self._set(JOIN, delay_ms)

    def _complete_first_join(self) -> None:
        if self.group.pending_joins:
            self.group.initial_delay = None
            self._set(JOIN, PENDING_JOINS_TIMEOUT_MS)
        else:
            self.complete_join()

    def complete_join(self) -> None:
        """Who has joined makes the next generation. Static members that are late stay: they may
        be restarting, and their session says when they are lost."""
        group = self.group
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.group_instance_id is None:
                self.remove(member)
        if group.members and not group.elect_joined_leader():
            # Static members alone, and none of them came: wait until their sessions end.
            self._set(JOIN, group.rebalance_timeout_ms)
            return
        self._set(JOIN, None)
        group.begin_generation(
            f"{counted(len(group.members), 'member has', 'members have')} joined", self.now.wall_ms
        )
        if not group.members:
            self.records.append(group.record())
            return
        for member in list(group.members.values()):
            reply = self.current_generation(member.member_id, tell_members=True)
            answered = self.answer_join(member, reply)
            self.update(answered._replace(is_new=False))
            self.expect_sign_of_life(member)
            group.pending_syncs[member.member_id] = None
        self._set(SYNC, group.rebalance_timeout_ms)

    # The second barrier

    def has_synchronised(self, member_id: str) -> None:
        self.group.pending_syncs.pop(member_id, None)
        if not self.group.pending_syncs:
            self._set(SYNC, None)

    def hand_round(self, assignments: dict[str, bytes]) -> None:
        """The leader has decided: everybody gets its part, and nobody more than that."""
        group = self.group
        for member in list(group.members.values()):
            assignment = bytes(assignments.get(member.member_id, b""))
            self.update(member._replace(assignment=assignment))
        group.move_to(State.STABLE, "the leader has assigned", self.now.wall_ms)
        self.records.append(group.record())
        self._hand_round(ErrorCode.NONE)

    def _hand_round(self, error: ErrorCode) -> None:
        group = self.group
        for member in list(group.members.values()):
            if error is ErrorCode.NONE:
                reply = SyncReply(
                    error, group.protocol_type, group.protocol_name, member.assignment
                )
            else:
                reply = SyncReply(error)
                member = self.update(member._replace(assignment=b""))  # noqa: PLW2901
            self.answer_sync(member, reply)
