"""Scenarios with real processes; docs/chaos.md says how to run them."""

import benchmarks  # noqa: F401 - says what to install, if packages of the extra `dev` are missing
