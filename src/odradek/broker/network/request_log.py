"""The request log: at level DEBUG a line for each request, with its client and its times.

    api=Fetch version=17 correlation=8 client=rdkafka connection=127.0.0.1:50414 listener=PLAINTEXT
    principal=User:ANONYMOUS request_bytes=98 queue_ms=0.011 local_ms=0.215 remote_ms=499.902
    send_ms=0.078 total_ms=500.206 error=NONE

(in one line). `queue_ms` is the time from the arrival of the complete request to the call of its
handler. `local_ms` is the time until the handler has answered or has to wait. `remote_ms` is that
wait: for replicas, for new records, for the members of a group. `send_ms` is the time from the
answer until the last byte has been sent: it waits behind earlier replies, is encoded, and the
client has to read it. `error` names the errors in the response, each once. DISCONNECTED means that
the client closed the connection before it was answered.

Of many requests a sample is enough: `odradek.logs.request.sample.every` and `.slow.ms` say which
requests are written. All are timed while the log is on, because nobody knows before its end whether
a request is slow or fails.

Invariant: while the log is off, no request passes through this module.
"""

import logging
import math
from typing import Final

from odradek.broker.dispatch import Dispatcher
from odradek.broker.network.connection import Connection
from odradek.broker.network.connections import Connections
from odradek.broker.network.request_serving import Serve
from odradek.broker.network.request_timing import NO_ERROR, RequestTimer, RequestTimes
from odradek.telemetry import logs
from odradek.world import Clock

logger = logging.getLogger(logs.REQUESTS)

# The golden ratio as a fraction of 2^32 (Knuth's multiplicative hash).
_SPREAD: Final = 2_654_435_769
_MASK: Final = 2**32 - 1


class RequestLog:
    """Puts itself between the connections and the dispatcher while the logger's level is DEBUG.

    The server tells it of each new connection (`follow`). It hears of changes of the level, and
    then attaches to all open connections or leaves them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        connections: Connections,
        clock: Clock,
        serve: Serve | None = None,
    ) -> None:
        """`serve` is what connections call while the log is off: the dispatcher, or what stands
        between it and the connections (`broker.network.request_meter`, `broker.tracing`)."""
        self._dispatcher = dispatcher
        self._timer = RequestTimer(dispatcher, clock, serve or dispatcher.serve, self._log)
        self._connections = connections
        self._is_on = False
        # How many requests were served while the log was on.
        self._count = 0
        self._unsubscribe = logs.subscribe(self._level_changed)
        self._level_changed()

    def close(self) -> None:
        self._unsubscribe()

    def follow(self, connection: Connection) -> None:
        """Called for each new connection."""
        if self._is_on:
            self._timer.attach(connection)

    def _level_changed(self) -> None:
        """Looks at the level once after each change, and not once a request."""
        is_on = logger.isEnabledFor(logging.DEBUG)
        if is_on == self._is_on:
            return
        self._is_on = is_on
        self._timer.listen(is_on=is_on)
        for connection in self._connections.open:
            if is_on:
                self._timer.attach(connection)
            else:
                self._timer.detach(connection)

    def _least_own_ms(self) -> float:
        """Returns from which duration on the next request is written: 0 if it is one of the
        sample."""
        settings = self._dispatcher.settings.broker
        every = settings.odradek_logs_request_sample_every
        self._count += 1
        # Spread by a multiplication instead of taking each n-th: a client that produces and fetches
        # by turns would else be seen with one of both only.
        if every == 1 or (self._count * _SPREAD & _MASK) * every <= _MASK:
            return 0.0
        slow_ms = settings.odradek_logs_request_slow_ms
        return float(slow_ms) if slow_ms >= 0 else math.inf

    def _log(self, times: RequestTimes, error: str, now_s: float) -> None:
        remote_s = times.remote_s
        own_ms = 1000 * (now_s - times.arrived_s - remote_s)
        least_own_ms = self._least_own_ms()
        if error == NO_ERROR and own_ms < least_own_ms:
            return
        connection, header = times.connection, times.header
        logger.debug(
            "api=%s version=%d correlation=%d client=%s connection=%s:%d listener=%s principal=%s"
            " request_bytes=%d queue_ms=%.3f local_ms=%.3f remote_ms=%.3f send_ms=%.3f"
            " total_ms=%.3f error=%s",
            times.api,
            header.api_version,
            header.correlation_id,
            _word(header.client_id),
            connection.address,
            connection.port,
            connection.listener,
            _word(str(connection.principal)),
            times.size,
            1000 * (times.begun_s - times.arrived_s),
            1000 * (times.handled_s - times.begun_s),
            1000 * remote_s,
            1000 * (now_s - times.answered_s),
            1000 * (now_s - times.arrived_s),
            error,
        )


def _word(text: str | None) -> str:
    """Returns text of the client in a form that is one word of the line."""
    if text is None:
        return "-"
    return text if text.isprintable() and " " not in text and text else repr(text)
