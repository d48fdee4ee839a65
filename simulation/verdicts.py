"""How a scenario says that something is wrong. Other errors mean that the code, or the scenario
itself, failed."""

from collections.abc import Iterable

from simulation.checkers import Violation


class Anomaly(AssertionError):
    """The history of the run breaks a rule: this is what scenarios look for."""


class NeverHappened(AssertionError):
    """A state that the cluster must reach by itself was not reached within the time limit."""


def require_no_violations(violations: Iterable[Violation]) -> None:
    """Raises `Anomaly` with the first ten violations."""
    found = list(violations)
    if found:
        raise Anomaly(f"{len(found)} anomalies\n" + "\n".join(map(str, found[:10])))
