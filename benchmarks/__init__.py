"""Measurements, and the processes that tests and measurements start.

They need packages of the extra `dev`. Without them one line says what to install, for benchmarks
as for scenarios (`tests.scenarios`, `tests.fuzz`), which use the same clients.
"""

import sys
from importlib.util import find_spec

from odradek.world.installing import install_line

for _package in ("confluent_kafka", "psutil"):
    if find_spec(_package) is None:
        sys.exit(f"{_package} is not installed: {install_line('dev')}")
