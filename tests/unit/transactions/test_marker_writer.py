"""Decisions that are written down while the markers of earlier ones are being written."""

import asyncio
from typing import Any, cast

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from odradek.replication.refusal import Refused
from odradek.transactions.commands import Examine, MarkersWritten
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.markers import MarkerWriter
from odradek.transactions.transaction import Status, Transaction

AT_REST = Transaction("tx", 7, 3, 1000, Status.COMPLETE_COMMIT)
DECIDED = Transaction("tx", 7, 3, 1000, Status.PREPARE_COMMIT)


class Coordinators:
    """Answers when it is told to; what it answers was so when it was asked."""

    def __init__(self) -> None:
        self.state = DECIDED
        self.ended = asyncio.Event()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.refuses = False

    def leader_epoch(self, _: str) -> int:
        return 1

    async def ask(self, _: str, command: Examine | MarkersWritten) -> Transaction | None:
        if isinstance(command, MarkersWritten):
            assert self.state is DECIDED
            self.ended.set()
            self.state = AT_REST
            return None
        seen, refuses = self.state, self.refuses
        self.asked.set()
        await self.may_answer.wait()
        if refuses:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return seen

    async def next_question(self) -> None:
        await self.asked.wait()
        self.asked.clear()


async def write_while(coordinators: Coordinators, *, refuses: bool) -> None:
    """A decision falls after the writer has asked, and before it hears the answer.

    Raises TimeoutError if nobody ever ends that transaction.
    """
    nobody = cast("Any", None)
    markers = LocalMarkers(nobody, nobody, nobody)
    writer = MarkerWriter(BrokerId(1), cast("Any", coordinators), markers, nobody, nobody)
    running = asyncio.ensure_future(writer.run())
    coordinators.state = AT_REST
    coordinators.refuses = refuses
    writer.prepared("tx")
    async with asyncio.timeout(5):
        await coordinators.next_question()
        coordinators.state = DECIDED
        coordinators.refuses = False
        writer.prepared("tx")
        coordinators.may_answer.set()
        await coordinators.ended.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_decision_that_an_answer_on_its_way_does_not_know_of_gets_its_markers() -> None:
    await write_while(Coordinators(), refuses=False)


async def test_a_decision_that_falls_when_the_lead_was_lost_and_won_again_gets_its_markers() -> (
    None
):
    await write_while(Coordinators(), refuses=True)
