"""Requests and connections."""

from collections import Counter
from collections.abc import Generator

from odradek.broker.management.sources import Sources, distribution
from odradek.broker.network.traffic import error_name
from odradek.telemetry.catalogue import network as metrics
from odradek.telemetry.declarations import Collected

_MILLISECONDS = 0.001


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    meter, connections = sources.meter, sources.server.connections
    for api, version, count in meter.requests():
        into.add(metrics.REQUESTS, count, api, str(version))
    now_s = sources.clock.monotonic_s()
    for times in list(meter.times.values()):
        if times.successes:
            into.add(metrics.ERRORS, times.successes, times.name, "NONE")
        for code, count in times.errors.items():
            into.add(metrics.ERRORS, count, times.name, error_name(code))
        for metric, values in (
            (metrics.TOTAL_TIME, times.total),
            (metrics.QUEUE_TIME, times.queue),
            (metrics.LOCAL_TIME, times.local),
            (metrics.REMOTE_TIME, times.remote),
            (metrics.RESPONSE_QUEUE_TIME, times.responding),
            (metrics.SEND_TIME, times.send),
        ):
            into.add(metric, distribution(values, now_s, _MILLISECONDS), times.name)
        into.add(metrics.REQUEST_BYTES, distribution(times.size, now_s, 1), times.name)
        yield
    waiting = Counter({"Produce": 0, "Fetch": 0, "Rebalance": 0})
    by_listener = Counter(
        {listener.name: 0 for listener in sources.server.advertised()},
    )
    queued = blocked = muted = 0
    for number, connection in enumerate(list(connections.open)):
        if not number % 200:
            yield
        by_listener[connection.listener] += 1
        operation, count = connection.delayed_operations
        waiting[operation] += count
        queued += connection.queued
        blocked += connection.is_blocked and not count
        muted += connection.is_muted
    for listener, count in by_listener.items():
        into.add(metrics.CONNECTIONS, count, listener, "0")
    for operation, count in waiting.items():
        into.add(metrics.PURGATORY, count, operation)
    into.add(metrics.QUEUED_REQUESTS, queued)
    into.add(metrics.QUEUED_RESPONSES, blocked)
    into.add(metrics.MUTED_CONNECTIONS, muted)
    into.add(metrics.REQUEST_MEMORY, connections.queue.held_bytes)
    into.add(metrics.CREATED_CONNECTIONS, connections.admitted)
    into.add(metrics.REFUSED_CONNECTIONS, connections.refused)
    into.add(metrics.EXPIRED_CONNECTIONS, connections.expired)
    idle = round(sources.idle.fraction(), 4)
    into.add(metrics.NETWORK_IDLE, idle)
    into.add(metrics.HANDLER_IDLE, idle)
    sessions = sources.components.services.fetch_sessions
    into.add(metrics.FETCH_SESSIONS, len(sessions))
    into.add(metrics.FETCH_SESSION_PARTITIONS, sessions.partitions)
