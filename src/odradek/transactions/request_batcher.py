"""Sends questions to other brokers, all that wait for the same broker in one request.

The transaction coordinator uses it for WriteTxnMarkers (`remote_markers`), and brokers that verify
transactions for AddPartitionsToTxn (`remote_coordinator`). A broker serves one such request of a
connection at a time, so a second request would only queue there. Questions that come while a
request is under way wait here and go out together with the next one.

Guarantee: every question is answered exactly once, with its answer or with `ApiError` and
NETWORK_EXCEPTION. After the error it is unknown whether the broker acted on the question, so asking
again must do no harm.
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
_STOPPING: Final = "this broker stops"


class Peer(Protocol):
    """An open connection to another broker."""

    async def request(
        self, message: Request, response_class: type[R], *, timeout_ms: int | None = None
    ) -> R: ...


class PeerDirectory(Protocol):
    """The part of `replication.peers.Peers` that coordinators use."""

    def connection(self, broker_id: BrokerId, purpose: str) -> Awaitable[Peer]: ...


class RequestBatcher(Generic[Question, Answer]):
    """Asks other brokers, one request at a time for each.

    Invariant: at most one request to each broker is under way."""

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
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, _STOPPING)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.setdefault(broker_id, []).append((question, answer))
        if broker_id not in self._senders:
            self._senders[broker_id] = loop.create_task(self._send_all(broker_id))
        return await answer

    def close(self) -> None:
        """Stops sending, and fails every question that has no answer yet."""
        self._is_closed = True
        for task in self._senders.values():
            task.cancel()
        waiting, self._waiting = self._waiting, {}
        for questions in waiting.values():
            _fail(questions, _STOPPING)

    async def _send_all(self, broker_id: BrokerId) -> None:
        """Sends requests to the broker until no question waits for it."""
        questions: list[tuple[Question, asyncio.Future[Answer]]] = []
        try:
            while waiting := self._waiting.pop(broker_id, []):
                questions, later = waiting[:_MAX_QUESTIONS], waiting[_MAX_QUESTIONS:]
                if later:
                    self._waiting[broker_id] = later
                await self._send_one(broker_id, questions)
        finally:
            del self._senders[broker_id]
            _fail(questions, _STOPPING)

    async def _send_one(
        self, broker_id: BrokerId, questions: Sequence[tuple[Question, asyncio.Future[Answer]]]
    ) -> None:
        try:
            peer = await self._peers.connection(broker_id, self._purpose)
            answers = await self._send(peer, [question for question, _ in questions])
        except (PeerUnreachable, ClientError) as error:
            _fail(questions, str(error))
            return
        if len(answers) != len(questions):
            _fail(questions, f"broker {broker_id} sent {len(answers)} results for {len(questions)}")
            return
        for (_, waiting), answer in zip(questions, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)


def _fail(questions: Sequence[tuple[Question, asyncio.Future[Answer]]], reason: str) -> None:
    for _, waiting in questions:
        if not waiting.done():
            waiting.set_exception(ApiError(ErrorCode.NETWORK_EXCEPTION, reason))
