"""How each planted bug must show: in which scenario, by which rule, and with which seed today.

A run that ends by another error is no finding. Changes of the code change what a seed does, so the
seeds have to be looked for again now and then.
"""

from typing import Final, NamedTuple

from simulation.cluster_invariants import InvariantBroken
from simulation.loop import SimulationError
from simulation.verdicts import Anomaly, NeverHappened


class Finding(NamedTuple):
    scenario: str
    # None if no seed is known that finds it quickly. Tests leave such a bug out.
    seed: int | None
    shows_as: type[Exception]
    # The message contains one of these.
    says: tuple[str, ...]


FINDINGS: Final = {
    "ack-before-replication": Finding("cluster", 8, InvariantBroken, ("unreplicated in",)),
    # An invariant of the controller catches it, before the decision is written.
    "elect-unclean": Finding("cluster", 2, SimulationError, ("neither in sync nor eligible",)),
    "forget-leader-fencing": Finding("cluster", 7, InvariantBroken, ("epoch fell in",)),
    "ignore-min-isr": Finding("cluster", 47, InvariantBroken, ("unreplicated in",)),
    "skip-truncation": Finding("cluster", 32, InvariantBroken, ("incomplete in",)),
    "keep-the-oldest": Finding("cluster", 1009, Anomaly, ("stale in ", "gone in ")),
    "forget-tombstones": Finding("cluster", 164, Anomaly, ("gone in ",)),
    "forget-the-absent": Finding("retries", 6, Anomaly, ("stale in ",)),
    # An invariant of the coordinator catches it, before a partition has two owners.
    "apply-after-commit": Finding("groups", 1015, SimulationError, ("is out of service: group",)),
    "forget-fencing": Finding("transactions", 3, Anomaly, ("zombie",)),
    "lose-a-pending-offset": Finding("transactions", 1018, Anomaly, ("stale offset",)),
    "reuse-a-producer-id": Finding("transactions", 8, Anomaly, ("inconsistent",)),
    # Storage and replication.
    "trust-stale-epochs": Finding("roles", 1022, InvariantBroken, ("incomplete in",)),
    "excuse-holes": Finding("storage", 1007, AssertionError, (" instead of ",)),
    "keep-a-log-start": Finding("topics", 1002, Anomaly, ("lost in ",)),
    "lead-with-an-empty-log": Finding("roles", 1008, Anomaly, ("lost in ", "destroyed in ")),
    # A broker that ends by itself ends the run.
    "die-without-descriptors": Finding("topics", 1020, SimulationError, ("unhandled errors",)),
    "take-nonsense": Finding("topics", 1032, Anomaly, ("nonsense taken",)),
    "never-make-it-again": Finding("topics", 1041, Anomaly, ("useless in ",)),
    "no-leader-lease": Finding(
        "leases", 1007, Anomaly, ("stale end", "stale offset", "self-named")
    ),
    "outrun-a-lease": Finding("leases", 9, Anomaly, ("stale end", "stale offset")),
    "renew-unread": Finding("leases", 65, Anomaly, ("stale end", "stale offset")),
    "ignore-broker-epochs": Finding("roles", 2230, InvariantBroken, ("incomplete in",)),
    "keep-the-broker-epoch": Finding("roles", 1, InvariantBroken, ("incomplete in",)),
    # An invariant of the leader itself catches it, before a record can be lost.
    "ignore-the-proposal": Finding("roles", 1001, SimulationError, ("does not wait for replica",)),
    "settle-unread": Finding("roles", 1026, InvariantBroken, ("incomplete in", "unreplicated in")),
    "forget-producers": Finding("retries", 1030, Anomaly, ("duplicate in ",)),
    # Metadata.
    "ordinary-internal-topics": Finding("topics", 1004, Anomaly, ("ordinary internal topic",)),
    "forget-producer-ids": Finding("topics", 1006, Anomaly, ("lost in ", "inconsistent in ")),
    "overwrite-settings": Finding("topics", 1010, Anomaly, ("lost setting",)),
    "show-by-id": Finding("topics", 1001, Anomaly, ("denied topic shown",)),
    # Coordinators.
    "forget-the-next-id": Finding("fencing", 11000, Anomaly, ("shut out",)),
    "fence-by-one-epoch": Finding("fencing", 1002, Anomaly, ("zombie",)),
    "tell-unstable-offsets": Finding("transactions", 1034, Anomaly, ("not once", "wrong start")),
    "name-itself-leader": Finding("leases", 2, Anomaly, ("self-named",)),
    "coordinate-without-lease": Finding("leases", 1007, Anomaly, ("stale offset",)),
    "wait-for-slow-followers": Finding("leases", 16, Anomaly, ("slow answer",)),
    # Clients.
    "forget-sequences": Finding("clients", 1119, Anomaly, ("lost in ", "inconsistent in ")),
    "split-in-front": Finding("clients", 37, Anomaly, ("undelivered",)),
    "go-on-unseen": Finding("clients", 1, Anomaly, ("given to nobody",)),
    "outrun-the-memory": Finding("leases", 20013, Anomaly, ("duplicate in ",)),
    "believe-a-follower": Finding("leases", 5, Anomaly, ("backwards in ",)),
    "take-later-for-done": Finding("sink", 6, Anomaly, ("row lost",)),
    "commit-replays-by-task": Finding("sink", 24, Anomaly, ("row doubled",)),
    # Without its marker a transaction stays open for ever: what follows it is never seen.
    "skip-a-marker": Finding("transactions", 1, NeverHappened, ("transactions that nobody ends",)),
}


def finds(plant: str, error: Exception) -> bool:
    """Whether the error that ended a run is the one by which the bug must show."""
    finding = FINDINGS[plant]
    if finding.shows_as is InvariantBroken and isinstance(error, Anomaly):
        return True  # Whatever it broke, a client has seen it.
    shown = error.__cause__ if isinstance(error.__cause__, InvariantBroken) else error
    return isinstance(shown, finding.shows_as) and any(rule in str(error) for rule in finding.says)
