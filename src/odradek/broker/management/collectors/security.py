"""The audit log."""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.telemetry.catalogue import security as metrics
from odradek.telemetry.declarations import Collected


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    yield
    audit = sources.components.services.audit
    into.add(metrics.AUDIT_EVENTS, 0 if audit is None else audit.written)
    into.add(metrics.AUDIT_DROPPED, 0 if audit is None else audit.dropped)
    into.add(metrics.AUDIT_BUFFERED, 0 if audit is None else audit.buffered)
