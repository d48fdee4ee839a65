"""Collects audit events while requests are served, and writes them beside the requests.

An event is appended to a buffer, and a task takes events from there and gives them to the sink. A
request never waits for the sink. If the sink is too slow or fails, the buffer becomes full, and
further events are dropped: they are counted (`dropped`), a line in the audit log says how many are
missing at that place, and a warning is logged.

Events that still wait when the broker stops are written if that takes no longer than a moment; the
others count as dropped.
"""

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from odradek.broker.audit.events import (
    AUTHENTICATION,
    AUTHORIZATION,
    CHANGE,
    AuditEvent,
    encode,
    encode_dropped,
)
from odradek.broker.audit.sinks import Sink
from odradek.config import BrokerSettings
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.apis import AnyApi
from odradek.protocol.types import BrokerId
from odradek.security.principals import ANONYMOUS, Principal
from odradek.wording import counted, shortened
from odradek.world import Clock
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.server")

# So much is given to the sink at once.
_MAX_BYTES: Final = 256 * 1024
_MAX_EVENTS: Final = 1000
# How long the last events may take when the broker stops.
_MAX_STOP_S: Final = 2.0
# How often a warning about dropped events is logged at most.
_WARNING_INTERVAL_S: Final = 10.0

DENIED, ALLOWED = "denied", "allowed"


class Peer(Protocol):
    """What is known of a client before it has sent a request: a connection."""

    @property
    def principal(self) -> Principal: ...
    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def listener(self) -> str: ...


class Asker(Protocol):
    """What is known of a request: its context."""

    @property
    def connection(self) -> Peer: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def api(self) -> AnyApi: ...


class AuditLog:
    """Invariant: every event is written, waits in the buffer, or is counted in `dropped`."""

    def __init__(
        self, broker_id: BrokerId, settings: BrokerSettings, clock: Clock, sink: Sink
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._sink = sink
        self._max_events = settings.odradek_audit_buffer_events
        events = settings.odradek_audit_events
        self._records = {ALLOWED: "allowed" in events, DENIED: "denied" in events}
        self._records_authentication = "authentication" in events
        self.records_changes = "changes" in events
        # Writes to the audit topic would else be events, which would be written there.
        self._own_topic = settings.odradek_audit_topic
        self._buffer: deque[AuditEvent] = deque()
        self._arrived = asyncio.Event()
        self.written = 0
        self.dropped = 0
        # How many of these the audit log does not tell yet.
        self._untold = 0
        self._next_warning_s = 0.0

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    # What happened

    def decided(
        self,
        asker: Asker,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        is_allowed: bool,
    ) -> None:
        """Called when the authorizer has decided about an operation that a request names."""
        result = ALLOWED if is_allowed else DENIED
        if not self._records[result]:
            return
        if is_allowed and kind is ResourceType.TOPIC and name == self._own_topic:
            return
        self._add(
            AUTHORIZATION,
            result,
            asker,
            operation=operation.display_name,
            resource_type=kind.display_name,
            resource=name,
        )

    def authenticated(
        self,
        connection: Peer,
        mechanism: str,
        principal: Principal | None,
        *,
        reason: str = "",
        client_id: str | None = None,
    ) -> None:
        """Called when a client has logged in, or has failed to: then `principal` is None or the one
        that it claimed to be, and `reason` says why. A reason must not contain a password."""
        if not self._records_authentication:
            return
        who = principal or ANONYMOUS
        self._append(
            AuditEvent(
                self._clock.now_ms(),
                AUTHENTICATION,
                "failure" if reason else "success",
                shortened(str(who)) if principal is not None else "",
                who.groups,
                connection.address,
                connection.port,
                connection.listener,
                _shortened(client_id),
                None,
                "SaslAuthenticate" if mechanism not in ("SSL", "PLAINTEXT") else "",
                operation=mechanism,
                detail=shortened(reason),
            )
        )

    def changed(
        self, asker: Asker, resource_type: str, resource: str, result: str, detail: str
    ) -> None:
        """Called for each resource that a request has changed, or failed to change."""
        self._add(
            CHANGE, result, asker, resource_type=resource_type, resource=resource, detail=detail
        )

    def _add(
        self,
        event: str,
        result: str,
        asker: Asker,
        *,
        operation: str = "",
        resource_type: str = "",
        resource: str = "",
        detail: str = "",
    ) -> None:
        connection = asker.connection
        principal = connection.principal
        self._append(
            AuditEvent(
                self._clock.now_ms(),
                event,
                result,
                str(principal),
                principal.groups,
                connection.address,
                connection.port,
                connection.listener,
                _shortened(asker.client_id),
                asker.correlation_id,
                asker.api.name,
                operation,
                resource_type,
                shortened(resource),
                shortened(detail),
            )
        )

    def _append(self, event: AuditEvent) -> None:
        if len(self._buffer) >= self._max_events:
            self._drop(1)
            return
        self._buffer.append(event)
        self._arrived.set()

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._untold += count
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_warning_s:
            self._next_warning_s = now_s + _WARNING_INTERVAL_S
            logger.warning(
                "the audit log cannot keep up: %s so far (%s)",
                counted(self.dropped, "event was dropped", "events were dropped"),
                self._sink.description,
            )

    # Writing

    async def run(self) -> None:
        """Writes events until cancelled, and then for a moment those that still wait."""
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                await self._arrived.wait()
                writing = asyncio.get_running_loop().create_task(self._write_some())
                # Shielded: a write that has begun goes on in its thread, and must not be repeated.
                await asyncio.shield(writing)
        finally:
            await self._finish(writing)
            self._sink.close()

    async def _finish(self, writing: "asyncio.Task[None] | None") -> None:
        try:
            async with asyncio.timeout(_MAX_STOP_S):
                if writing is not None:
                    await writing
                while self._buffer or self._untold:
                    await self._write_some()
        except TimeoutError:
            pass
        if self._buffer:
            count = len(self._buffer)
            self._buffer.clear()
            self._drop(count)
            logger.warning(
                "%s not written: the broker stopped before (%s)",
                counted(count, "audit event was", "audit events were"),
                self._sink.description,
            )

    async def _write_some(self) -> None:
        """Writes the oldest events. They stay in the buffer, which counts them, until they are
        written or lost."""
        lines, timeslice, size = [], Timeslice.of_running_loop(), 0
        for event in list(self._buffer)[:_MAX_EVENTS]:
            if size >= _MAX_BYTES:
                break
            if timeslice.is_over():
                await timeslice.next_turn()
            line = encode(event, self._broker_id)
            lines.append(line)
            size += len(line)
        count, untold = len(lines), 0
        if count == len(self._buffer):
            # Everything that was dropped came after the last event in the buffer.
            self._arrived.clear()
            untold, self._untold = self._untold, 0
            if untold:
                lines.append(encode_dropped(self._clock.now_ms(), untold, self._broker_id))
        try:
            is_written = bool(not lines or await self._sink.write(lines))
        except asyncio.CancelledError:
            # The broker stops and has waited long enough.
            self._untold += untold
            raise
        for _ in range(count):
            self._buffer.popleft()
        if is_written:
            self.written += count
            return
        self._untold += untold
        self._drop(count)
        # The line about them is written with the next event, or at the end.


def _shortened(text: str | None) -> str | None:
    return None if text is None else shortened(text)
