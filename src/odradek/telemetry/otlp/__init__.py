"""OpenTelemetry's metrics as bytes: what clients push (KIP-714) and what collectors take.

    wire      fields of Protocol Buffers, read and written
    decoding  from MetricsData to points
    encoding  from points to MetricsData
    labels    MetricsData with more attributes, without decoding its points

They are written by hand, in place of the package `opentelemetry-proto`: that brings protobuf and
its generated modules for the four messages that are needed here, and a broker needs nothing but
Python (docs/decisions/0028-client-telemetry.md).
"""
