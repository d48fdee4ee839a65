"""The audit log."""

from odradek.telemetry.declarations import counter, gauge

AUDIT_EVENTS = counter(
    "odradek_audit_events_total",
    "Audit events that were written to the file or the topic. 0 without an audit log.",
)
AUDIT_DROPPED = counter(
    "odradek_audit_dropped_events_total",
    "Audit events that were dropped, because the file or the topic could not be written fast "
    "enough. A line in the audit log says where they are missing.",
)
AUDIT_BUFFERED = gauge(
    "odradek_audit_buffered_events",
    "Audit events that wait to be written, of odradek.audit.buffer.events.",
)
