"""Spans for slow requests, sent to a collector of OpenTelemetry.

    slow_requests    times all requests, and makes a span of a slow one
    record_traces    which traces the records of a Produce request belong to
    exporter         sends spans beside the requests: bounded, never waited for

A broker without `odradek.tracing.otlp.endpoint` imports none of this. Nothing looks into records on
the way of a request: what a slow Produce request carried is looked at afterwards, off the event
loop.
"""
