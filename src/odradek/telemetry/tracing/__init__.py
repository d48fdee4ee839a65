"""Traces without a library: what brokers and clients need of OpenTelemetry's formats.

    traceparent   the header of W3C Trace Context, read and written
    spans         a span as a plain value
    otlp          spans in the format of OTLP, as bytes

A broker needs nothing but Python, so it does not use OpenTelemetry's SDK. Programs do: the
interceptors in `odradek.client.tracing` give their spans to the SDK that the program has set up.
"""
