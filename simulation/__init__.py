"""Deterministic simulation: a cluster in one process, in virtual time, decided by a seed.

Hosts with a disk, a clock and a network that can be delayed, cut and reset; processes on them
that can be killed, stopped and restarted. Production code runs on it unchanged. The same seed
gives the same trace, byte for byte. See docs/simulation.md.
"""

from simulation.disk import PowerCut, SimulatedDisk
from simulation.loop import SimulatedLoop, SimulationError
from simulation.network import Network
from simulation.process import Process
from simulation.run import Result, run
from simulation.trace import Trace
from simulation.world import Host, SimulatedClock, Simulation

__all__ = [
    "Host",
    "Network",
    "PowerCut",
    "Process",
    "Result",
    "SimulatedClock",
    "SimulatedDisk",
    "SimulatedLoop",
    "Simulation",
    "SimulationError",
    "Trace",
    "run",
]
