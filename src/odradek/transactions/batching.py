"""Gathers what one broker is to be asked: everything that waits goes out as one request.

Place: between the coordinators and `replication.peers`, for WriteTxnMarkers and
AddPartitionsToTxn. A broker serves one such request of a connection at a time, so a second one
under way would only queue there; what comes meanwhile is gathered here instead.
Invariant: every question is answered exactly once: with its answer, or with `ApiError` and
NETWORK_EXCEPTION, after which the outcome is unknown and asking again must do no harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from odradek.client.errors import ClientError
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId
from odradek.replication.peers import PeerUnreachable

Question = TypeVar("Question")
Answer = TypeVar("Answer")
R = TypeVar("R", bound=Response)

_MAX_QUESTIONS: Final = 500
_STOPS: Final = "this broker stops"


class Peer(Protocol):
    """An open connection to another broker."""

    async def request(
        self, message: Request, response_class: type[R], *, timeout_ms: int | None = None
    ) -> R: ...


class PeerDirectory(Protocol):
    """`replication.peers.Peers`, as far as coordinators need it."""

    def connection(self, broker_id: BrokerId, purpose: str) -> Awaitable[Peer]: ...


class Batches(Generic[Question, Answer]):
    """One request at a time to each broker."""

    def __init__(
        self,
        peers: PeerDirectory,
        purpose: str,
        send: Callable[[Peer, Sequence[Question]], Awaitable[Sequence[Answer]]],
    ) -> None:
        """`send` makes one request of the questions and returns the answers in their order."""
        self._peers = peers
        self._purpose = purpose
        self._send = send
        self._waiting: dict[BrokerId, list[tuple[Question, asyncio.Future[Answer]]]] = {}
        self._senders: dict[BrokerId, asyncio.Task[None]] = {}
        self._is_closed = False

    async def ask(self, broker_id: BrokerId, question: Question) -> Answer:
        if self._is_closed:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, _STOPS)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.setdefault(broker_id, []).append((question, answer))
        if broker_id not in self._senders:
            self._senders[broker_id] = loop.create_task(self._ask_all(broker_id))
        return await answer

    def close(self) -> None:
        """Asks nobody any more; whoever waits is refused."""
        self._is_closed = True
        for task in self._senders.values():
            task.cancel()
        waiting, self._waiting = self._waiting, {}
        for questions in waiting.values():
            _refuse(questions, _STOPS)

    async def _ask_all(self, broker_id: BrokerId) -> None:
        """Until nothing waits for this broker."""
        questions: list[tuple[Question, asyncio.Future[Answer]]] = []
        try:
            while waiting := self._waiting.pop(broker_id, []):
                questions, later = waiting[:_MAX_QUESTIONS], waiting[_MAX_QUESTIONS:]
                if later:
                    self._waiting[broker_id] = later
                await self._ask(broker_id, questions)
        finally:
            del self._senders[broker_id]
            _refuse(questions, _STOPS)

    async def _ask(
        self, broker_id: BrokerId, questions: Sequence[tuple[Question, asyncio.Future[Answer]]]
    ) -> None:
        try:
            peer = await self._peers.connection(broker_id, self._purpose)
            answers = await self._send(peer, [question for question, _ in questions])
        except (PeerUnreachable, ClientError) as error:
            _refuse(questions, str(error))
            return
        if len(answers) != len(questions):
            _refuse(questions, f"broker {broker_id} answered something else")
            return
        for (_, waiting), answer in zip(questions, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)


def _refuse(questions: Sequence[tuple[Question, asyncio.Future[Answer]]], reason: str) -> None:
    for _, waiting in questions:
        if not waiting.done():
            waiting.set_exception(ApiError(ErrorCode.NETWORK_EXCEPTION, reason))
