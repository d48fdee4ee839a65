"""Commands that measure; the load generator itself is `odradek.perf`."""
