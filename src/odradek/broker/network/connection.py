"""The connection of one client: it receives requests, serves them in order, and sends the replies.

A request is served when every earlier request of its connection has been answered, as in Kafka,
with two exceptions that `broker.network.requests_under_way` describes.

If the client does not read its replies, no further request is served or received: a slow reader
costs one chunk of memory, whatever it asked for. Behind a request that waits as long as the client
has chosen, for instance a fetch, no more than a small request is received ahead. The memory of
requests is counted for all connections together (`broker.network.request_queue`), and is released
when the connection is closed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, cast

from odradek.broker.network.admission import Admission
from odradek.broker.network.busy_poll import BusyPoll
from odradek.broker.network.connections import OS_DEFAULT, Connections
from odradek.broker.network.reply_batching import ReplyBatching
from odradek.broker.network.reply_writer import Parts, ReplyWriter
from odradek.broker.network.request_queue import SMALL_BYTES
from odradek.broker.network.request_serving import (
    NO_WAIT,
    InterruptibleWait,
    Pending,
    Serve,
    Splitter,
)
from odradek.broker.network.requests_under_way import RequestsUnderWay
from odradek.invariants import InvariantViolation, is_thorough
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import FrameSplitter
from odradek.protocol.types import Buffer
from odradek.security.principals import ANONYMOUS

logger = logging.getLogger("odradek.server")

# What a connection serves before other connections have their turn: a fraction of a millisecond's
# work, or one request.
_MAX_FRAMES_PER_TURN: Final = 8
_MAX_BYTES_PER_TURN: Final = 128 * 1024
# When more than this has arrived of a request, the rest is received in turns (`round_robin`).
_LARGE_BYTES: Final = 1 << 20
# The size in front of a frame.
_PREFIX_BYTES: Final = 4


class Connection(asyncio.Protocol):
    """Invariant: replies are sent in the order of the requests, whichever is finished first.

    Invariant: `held_bytes` counts the bytes in the splitter, the frames in `_frames`, and the
    requests whose replies are awaited, `_under_way`. They are part of `held_bytes` of the request
    queue that all connections share.
    """

    __slots__ = (
        "_admission",
        "_awaits_reading",
        "_busy_poll",
        "_connections",
        "_frames",
        "_guarded",
        "_is_finishing",
        "_is_serving",
        "_is_turn_scheduled",
        "_loop",
        "_queue",
        "_reply_batching",
        "_serve",
        "_transport",
        "_under_way",
        "_writer",
        "active_s",
        "address",
        "arrival_clock",
        "arrived_s",
        "held_bytes",
        "is_by_token",
        "listener",
        "port",
        "principal",
        "received_s",
        "session",
        "splitter",
    )

    def __init__(self, listener: str, connections: Connections, serve: Serve) -> None:
        self.listener = listener
        self.address = ""
        self.port = 0
        self.active_s = 0.0
        # The principal whose permissions are checked. Authentication puts another one here.
        self.principal = ANONYMOUS
        # Whether the client has logged in by a delegation token.
        self.is_by_token = False
        # What handlers have learned about the client: the name of its software.
        self.session: dict[str, str] = {}
        self.held_bytes = 0
        self.received_s = 0.0
        # When the frames arrived that wait or are served, for whoever gives a clock.
        self.arrival_clock: Callable[[], float] | None = None
        self.arrived_s = 0.0
        self._connections = connections
        self._queue = connections.queue
        self._serve = serve
        # While a guard serves the frames: what serves those that it lets pass.
        self._guarded: Serve | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.splitter: Splitter = FrameSplitter(connections.frame_bytes)
        self._frames: deque[Buffer] = deque()
        self._under_way = RequestsUnderWay()
        self._writer = ReplyWriter(self._loop, self._take_turn)
        # Only where there is a real socket, whose other side sleeps and is woken.
        self._busy_poll: BusyPoll | None = None
        self._reply_batching: ReplyBatching | None = None
        self._is_turn_scheduled = self._awaits_reading = False
        self._is_finishing = self._is_serving = False
        self._admission = Admission(self._loop, self._take_turn)

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way, or a reply has not been sent completely."""
        return bool(self._under_way.waiting or self._writer.parts)

    @property
    def delayed_operations(self) -> tuple[str, int]:
        """What the requests under way are, by the names of Kafka's purgatories, and how many."""
        return self._under_way.delayed_operations

    @property
    def is_muted(self) -> bool:
        """Whether a quota or a limit keeps the connection from being served for a while."""
        return self._admission.is_delayed

    @property
    def queued(self) -> int:
        """How many whole frames have arrived that are not served yet."""
        return len(self._frames)

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes have arrived of a frame that is not complete."""
        return self.splitter.unfinished_bytes

    @property
    def missing_bytes(self) -> int:
        """How many bytes are missing of that frame."""
        return self.splitter.missing_bytes

    @property
    def unserved_bytes(self) -> int:
        """How many bytes have arrived of requests that are not under way yet."""
        return self.held_bytes - self._under_way.size_bytes

    @property
    def is_blocked(self) -> bool:
        """Whether the client decides when its next request is served: a request waits for as long
        as the client has chosen, or the client does not read its replies."""
        writer = self._writer
        return bool(self._under_way.is_blocking or writer.is_paused or writer.parts)

    def begin_wait(self, wait: InterruptibleWait) -> None:
        """Called by the handler of a request that is to be interrupted if need be."""
        self._under_way.wait = wait

    def end_wait(self) -> None:
        self._under_way.wait = NO_WAIT

    def interrupt_wait(self) -> None:
        """Answers a fetch that waits for records with what there is."""
        self._under_way.wait.interrupt()

    def serve_by(self, serve: Serve, splitter: Splitter) -> None:
        """Replaces the splitter and the function that serves, for what arrives from now on. While
        there is a guard it goes on to serve, and lets pass what it lets pass."""
        self.splitter = splitter
        if self._guarded is None:
            self._serve = serve
        else:
            self._guarded = serve

    def guard_by(self, guard: Serve) -> None:
        """Lets `guard` serve every frame until `unguard`: clients must log in before others serve
        them (`broker.authentication`)."""
        assert self._guarded is None
        self._guarded, self._serve = self._serve, guard

    def serve_behind_guard(self, frame: Buffer) -> Parts | Pending | None:
        """Called by the guard for a frame that it lets pass."""
        assert self._guarded is not None
        return self._guarded(self, frame)

    def unguard(self) -> None:
        """Called by the guard when it need not look at further frames."""
        assert self._guarded is not None
        self._serve, self._guarded = self._guarded, None

    def exchange_serve(self, old: Serve, new: Serve) -> None:
        """Replaces the function that serves the next frames, if it is `old` now."""
        if self._serve == old:
            self._serve = new

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.address, self.port = str(peer[0]), int(peer[1])
        self.active_s = self._loop.time()
        if self._is_finishing or not self._connections.admit(self, self.address):
            self._transport.abort()
            return
        self._writer.open(self._transport)
        if self._writer.has_socket:
            self._busy_poll, self._reply_batching = self._connections.of_loop()
        if self._connections.send_buffer_bytes != OS_DEFAULT:
            self._writer.limit_send_buffer(self._connections.send_buffer_bytes)
        self._wait_for_admission()

    def _wait_for_admission(self) -> None:
        """Defers serving and receiving if connections arrive faster than they may. A connection
        beyond the quota of its address is never served: it is closed after a while, as in Kafka,
        so that a client that connects again at once costs less."""
        refused_s, delay_s = self._connections.delays_s(self, self.active_s)
        if refused_s:
            self._loop.call_later(refused_s, self.abort)
        if delay_s:
            self._admission.close_for(delay_s)
            # Not now, because uvloop begins to read after this callback even if reading is paused.
            self._loop.call_soon(self.read_on)

    def mute(self, duration_s: float) -> None:
        """Serves no further request and receives nothing for so long, because the client has used
        up a quota. Replies are sent as they are ready."""
        if self._transport is not None:
            self._admission.close_for(duration_s)
            self.read_on()

    def data_received(self, data: bytes) -> None:
        queue, splitter = self._queue, self.splitter
        self.held_bytes += len(data)
        queue.held_bytes += len(data)
        try:
            frames = splitter.feed(data)
        except MalformedMessage as error:
            self._refuse(error)
            return
        if splitter.unfinished_bytes:
            self.received_s = self._loop.time()
            if splitter.unfinished_bytes > _LARGE_BYTES and not self._awaits_reading:
                self._awaits_reading = True
                self._connections.reading_order.add(self._read_in_turn)
                self.read_on()
        if frames:
            self._frames.extend(frames)
            if self.arrival_clock is not None:
                self.arrived_s = self.arrival_clock()
            if self is queue.finisher:
                queue.finished(self)
        if self._frames and not self._is_turn_scheduled and self._admission.is_open:
            if len(self._frames[0]) <= _MAX_BYTES_PER_TURN:
                self._take_turn()
            else:
                self._queue_up()
                self.read_on()
            if self._busy_poll is not None:
                self._busy_poll.served()
        elif queue.held_bytes >= queue.max_bytes or (
            self.held_bytes > SMALL_BYTES and self.is_blocked
        ):
            self.read_on()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writer.is_paused = True

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._admission.end()
        self._under_way.cancel()
        self._writer.end()
        self._drop_unserved()
        self._queue.forget(self)
        self._connections.forget(self, self.address)

    def close(self) -> None:
        """Closes when the replies that were written have been sent; serves no further request."""
        self._drop_unserved()
        self._writer.flush()
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Closes as soon as the requests under way are answered."""
        self._is_finishing = True
        self._drop_unserved()
        self.read_on()
        if not self.is_waiting:
            self.close()

    def finish_after_reply(self) -> None:
        """Called while a request is served: serves no further one, and closes when the reply to
        this one has been sent."""
        self._is_finishing = True
        self._drop_unserved()

    def abort(self) -> None:
        # A broker that was held up may give up a connection that it has accepted and not made yet.
        self._is_finishing = True
        if self._transport is not None:
            self._transport.abort()

    def _drop_unserved(self) -> None:
        """Releases the requests that are not served. The transport may stay open until the client
        has read its replies, or until the connection has been idle for too long; the memory must
        not be held for so long."""
        self._frames.clear()
        self.splitter.clear()
        under_way = self._under_way.size_bytes
        self._queue.held_bytes -= self.held_bytes - under_way
        self.held_bytes = under_way
        self._queue.settle()

    # Requests in

    def _read_in_turn(self) -> None:
        self._awaits_reading = False
        self.read_on()

    def read_on(self) -> None:
        """Resumes or pauses receiving. It is paused while the connection is not admitted, is muted
        or is being closed, while frames wait to be served, while it is another connection's turn to
        receive, while much has arrived behind a request that blocks, and while memory is short."""
        if self._transport is None:
            return
        if (
            self._admission.is_open
            and not self._is_finishing
            and not self._frames
            and not self._awaits_reading
            and (self.held_bytes <= SMALL_BYTES or not self.is_blocked)
            and self._queue.may_read(self)
        ):
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _take_turn(self) -> None:
        """Serves queued frames, a few at a time, so that other connections get their turn."""
        queue = self._queue
        if self._is_turn_scheduled:
            self._is_turn_scheduled = False
            queue.queued -= 1
        self._is_serving = True
        frames = self._frames
        room_bytes = _MAX_BYTES_PER_TURN
        for _ in range(_MAX_FRAMES_PER_TURN):
            if not frames or self._transport is None or not self._may_serve(frames[0]):
                break
            frame = frames.popleft()
            room_bytes -= len(frame)
            self._serve_frame(frame)
            if room_bytes <= 0:
                break
        self._is_serving = False
        self.check()
        writer = self._writer
        if writer.gathered and (
            self._reply_batching is None or not self._reply_batching.defer(writer.flush)
        ):
            writer.flush()
        queue.settle()
        if self._transport is None:
            return
        if self._is_finishing:
            self.finish()
            return
        if not frames:
            self.read_on()
            return
        self._transport.pause_reading()
        if self._may_serve(frames[0]):
            self._queue_up()
        else:
            self._under_way.wait.next_request_arrived()

    def check(self) -> None:
        """Raises `InvariantViolation` if `held_bytes` is wrong. For tests and simulations."""
        if is_thorough() and self._transport is not None:
            queued = sum(_PREFIX_BYTES + len(frame) for frame in self._frames)
            held = self.splitter.unfinished_bytes + queued + self._under_way.size_bytes
            if held != self.held_bytes:
                rule = f"held_bytes ({self.held_bytes}) is what it holds ({held})"
                raise InvariantViolation(f"connection from {self.address}:{self.port}", rule)

    def _queue_up(self) -> None:
        """Serves the next frames after the connections that queue already have had their turn."""
        self._is_turn_scheduled = True
        self._queue.queued += 1
        self._connections.serving_order.add(self._take_turn)

    def _may_serve(self, frame: Buffer) -> bool:
        if not self._admission.is_open:
            return False
        if self._writer.is_paused or self._writer.parts:
            return False
        return self._under_way.may_begin(frame)

    def _serve_frame(self, frame: Buffer) -> None:
        self.active_s = self._loop.time()
        size = _PREFIX_BYTES + len(frame)
        self._hold(-size)
        try:
            reply = self._serve(self, frame)
        except MalformedMessage as error:
            self._refuse(error)
            return
        except Exception:  # noqa: BLE001 - an error in one request must not affect other clients
            self._fail()
            return
        if isinstance(reply, Pending):
            self._hold(size)
            self._under_way.begin(frame, reply, size).add_done_callback(self._answer_waiting)
        elif self._under_way.waiting:
            self._under_way.add_answered(reply)
        elif reply:
            self._writer.reply(reply, gathers=self._is_serving)

    def _hold(self, size: int) -> None:
        self.held_bytes += size
        self._queue.held_bytes += size

    def _answer_waiting(self, _: object) -> None:
        under_way = self._under_way
        self._is_serving = True
        while (answered := under_way.take_answered()) is not None:
            task, encode, size = answered
            self._hold(-size)
            if task.cancelled():
                continue
            error = task.exception()
            if isinstance(error, MalformedMessage):
                self._refuse(error)
                return
            if error is not None:
                self._fail(error)
                return
            try:
                reply = encode(task.result())
            except ValueError as not_encodable:
                self._fail(not_encodable)
                return
            if isinstance(reply, list):
                self._writer.reply(reply, gathers=self._is_serving)
            elif reply is not None:
                encoding = asyncio.ensure_future(cast("Awaitable[object]", reply))
                under_way.encode_on(encoding, size)
                self._hold(size)
                encoding.add_done_callback(self._answer_waiting)
                break
        self._is_serving = False
        self._writer.flush()
        self.active_s = self._loop.time()
        if not self._is_turn_scheduled and self._transport is not None:
            self._take_turn()

    def _refuse(self, error: MalformedMessage) -> None:
        logger.info("closing the connection from %s:%s: %s", self.address, self.port, error)
        self.close()

    def _fail(self, error: BaseException | None = None) -> None:
        told = "a request from %s:%s failed unexpectedly"
        logger.error(told, self.address, self.port, exc_info=error or True)
        self.close()
