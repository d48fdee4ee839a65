"""The load generator behind the measuring tools (`producer-perf-test` and its kin)."""
