"""Commands that measure throughput and latency; the load generator is in `odradek.perf`."""
