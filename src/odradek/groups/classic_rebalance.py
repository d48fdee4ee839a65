"""A decision about one classic group: a draft of the group, and the outcome.

`ClassicDecision` works on a draft and collects replies, records and deadlines; `outcome` returns
them. It has the two phases of a rebalance: `prepare` and `complete_join` for JoinGroup,
`assign` for SyncGroup. `classic_membership` decides which requests are allowed.

    deadline                      set                              when it passes
    ("session", group, member)    at each request of the member    the member is removed
    ("join", group)               when a rebalance begins          the members that have joined
                                                                   form the next generation
    ("sync", group)               when all members have joined     the members that have not sent
                                                                   SyncGroup are removed
"""

from typing import Any, Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import ClassicGroup, InitialDelay, State
from odradek.groups.classic_member import ClassicMember
from odradek.groups.commands import JoinReply, SyncReply
from odradek.groups.group import GroupChanged, GroupDecisionContext, GroupOutcome, members_subject
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller, Deadline, LogLine, LogRecord, Outcome, R, Reply
from odradek.wording import counted

LOGGER: Final = "odradek.groups"

SESSION: Final = "session"
JOIN: Final = "join"
SYNC: Final = "sync"

# A new member has no id to send heartbeats with, and its connection is silent while it waits. If
# its client gave up and joined again, the first member must not stay for ever.
NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
# A client that was given a member id joins with it at once. A first generation without it would end
# only at the next heartbeats of its members, seconds later.
PENDING_JOINS_TIMEOUT_MS: Final = 100


class ClassicDecision:
    """One decision about one classic group."""

    def __init__(
        self, group: ClassicGroup, settings: GroupSettings, now: GroupDecisionContext
    ) -> None:
        """`group` is a draft. It becomes the group when the outcome is applied."""
        self.group = group
        self.settings = settings
        self.now = now
        self.records: list[LogRecord] = []
        self._replies: list[Reply[Any]] = []
        self._deadlines: list[Deadline] = []
        self._generation_before = group.generation_id
        self._history_before = group.history

    def outcome(self) -> GroupOutcome:
        group = self.group
        group.check_after(self._generation_before)
        return Outcome(
            self.records,
            (GroupChanged(group),),
            self._replies,
            self._deadlines,
            subjects=(members_subject(group.group_id),),
            log_lines=() if group.history is self._history_before else self._log_lines(),
        )

    def _log_lines(self) -> list[LogLine]:
        # The timestamp is left out, because the log adds one.
        return [
            LogLine(LOGGER, "group %s: %s", (self.group.group_id, line.partition(" ")[2]))
            for line in self.group.history
            if line not in self._history_before
        ]

    def answer(self, caller: Caller[R] | None, response: R) -> None:
        if caller is not None:
            self._replies.append(Reply(caller, response))

    # Deadlines

    def renew_session(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        after_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.set_session(member.member_id, after_ms)

    def set_session(self, member_id: str, after_ms: int | None) -> None:
        self._deadlines.append(Deadline((SESSION, self.group.group_id, member_id), after_ms))

    def _set(self, kind: str, after_ms: int | None) -> None:
        self._deadlines.append(Deadline((kind, self.group.group_id), after_ms))

    # Members

    def update(self, member: ClassicMember) -> ClassicMember:
        self.group.members[member.member_id] = member
        return member

    def answer_join(self, member: ClassicMember, reply: JoinReply) -> ClassicMember:
        """Answers the member's JoinGroup if one waits."""
        if member.awaiting_join is None:
            return member
        self.answer(member.awaiting_join, reply)
        return self.update(member._replace(awaiting_join=None))

    def answer_sync(self, member: ClassicMember, reply: SyncReply) -> ClassicMember:
        """Answers the member's SyncGroup if one waits. From then on its session may expire."""
        if member.awaiting_sync is None:
            return member
        self.answer(member.awaiting_sync, reply)
        self.renew_session(member)
        return self.update(member._replace(awaiting_sync=None))

    def remove(self, member: ClassicMember) -> None:
        """Removes the member. Its waiting requests get UNKNOWN_MEMBER_ID: a live client rejoins."""
        member = self.answer_join(member, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(member, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove(member.member_id)
        self.set_session(member.member_id, None)

    def forget_pending(self, member_id: str) -> None:
        self.group.remove(member_id)
        self.set_session(member_id, None)

    def current_generation(self, member_id: str, *, with_members: bool) -> JoinReply:
        group = self.group
        return JoinReply(
            ErrorCode.NONE,
            member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            group.joined_members() if with_members and member_id == group.leader_id else (),
        )

    # The first phase: JoinGroup

    def rebalance(self, why: str) -> None:
        """Begins a rebalance. One that is being prepared completes if all members have joined."""
        if self.group.state is State.PREPARING_REBALANCE:
            self.complete_join_if_all_joined()
        else:
            self.prepare(why)

    def complete_join_if_all_joined(self) -> None:
        group = self.group
        is_preparing = group.state is State.PREPARING_REBALANCE
        if is_preparing and group.initial_delay is None and group.all_have_joined:
            self.complete_join()

    def prepare(self, why: str) -> None:
        group = self.group
        if group.state is State.COMPLETING_REBALANCE:
            self._refuse_syncs()
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
        """Waits again if a member joined meanwhile, because more may follow, but not longer than
        the rebalance timeout in total."""
        if not waited.has_new_member or waited.remaining_ms == 0:
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
        """Begins the next generation with the members that have joined. Static members that have
        not stay in the group until their session expires: they may be restarting."""
        group = self.group
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.group_instance_id is None:
                self.remove(member)
        if group.members and not group.elect_joined_leader():
            # Only static members, and none of them has joined: wait until their sessions expire.
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
            reply = self.current_generation(member.member_id, with_members=True)
            answered = self.answer_join(member, reply)
            self.update(answered._replace(is_new=False))
            self.renew_session(member)
            group.pending_syncs[member.member_id] = None
        self._set(SYNC, group.rebalance_timeout_ms)

    # The second phase: SyncGroup

    def note_sync(self, member_id: str) -> None:
        """Notes that the member has sent SyncGroup."""
        self.group.pending_syncs.pop(member_id, None)
        if not self.group.pending_syncs:
            self._set(SYNC, None)

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Takes the leader's assignments and gives each member its own."""
        group = self.group
        for member in list(group.members.values()):
            assignment = bytes(assignments.get(member.member_id, b""))
            self.update(member._replace(assignment=assignment))
        group.move_to(State.STABLE, "the leader has assigned", self.now.wall_ms)
        self.records.append(group.record())
        for member in list(group.members.values()):
            reply = SyncReply(
                ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment
            )
            self.answer_sync(member, reply)

    def _refuse_syncs(self) -> None:
        """Tells the members that wait for the assignment to rejoin: a new rebalance begins."""
        for member in list(self.group.members.values()):
            without_assignment = self.update(member._replace(assignment=b""))
            self.answer_sync(without_assignment, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
