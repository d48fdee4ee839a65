"""What makes some runs of `groups` more varied than members of one kind that share one topic.

The seed switches each variation on or off, from a random source of its own, so that runs without
variations stay what they were: members of both protocols in one group, subscriptions by pattern or
to two topics, racks, a limit to the number of members, an administrator who works on groups while
the faults go on (`group_administrator`), and a jump of the clock after the faults, which expires
the groups that have no members.
"""

from typing import Final

from simulation.workload import Options
from simulation.world import Simulation

# A second topic, which the administrator creates, enlarges and deletes. Nobody writes to it.
MORE: Final = "orders-more"
# Both topics match each of them: those that a client compares, and those that only a broker can.
PATTERNS: Final = (
    "order.*",
    "orders(-more)?",
    "(?:orders|orders-more)",
    "[a-p]rder[^0-9]+",
    r"o\w{2,}s.*",
    "order.{1,9}?",
    r"o(r|d|e|s)+-?[\w]*$",
)
BROKER_PATTERNS: Final = (
    *PATTERNS,
    "[[:alpha:]]+(?:-[[:lower:]]+)?",
    r"\p{Ll}+(-\p{L}*)?",
    r"\Qorders\E.*",
    "(?i)ORDERS.*",
    r"\x6frders[^\d\s]*",
)
WRONG_PATTERNS: Final = ("(", "[a", "a{3,1}", r"\8", "*")
_RETENTION_MINUTES: Final = 10
# After this time what was not used before it is expired.
EXPIRATION_MS: Final = (_RETENTION_MINUTES + 1) * 60_000
_RACKS: Final = ("a", "b")
_POLICIES: Final = ("bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")


class GroupVariations:
    def __init__(self, simulation: Simulation, main_topic: str) -> None:
        random = self.random = simulation.random("group variety")
        is_varied = random.random() < 0.6
        self._main_topic = main_topic
        self.is_mixed = is_varied and random.random() < 0.4
        self.has_patterns = is_varied and random.random() < 0.3
        self.has_two_topics = is_varied and random.random() < 0.3
        self.has_racks = is_varied and random.random() < 0.2
        self.has_administrator = is_varied and random.random() < 0.6
        self.has_expiration = is_varied and random.random() < 0.4
        self._max_members = random.choice((2, 3)) if is_varied and random.random() < 0.2 else None
        self._policy = random.choice(_POLICIES)

    def properties(self) -> dict[str, str]:
        """Settings of brokers."""
        found = {}
        if self.is_mixed:
            found["group.consumer.migration.policy"] = self._policy
        if self.has_racks:
            found["broker.rack"] = _RACKS[0]
        if self._max_members is not None:
            found["group.max.size"] = found["group.consumer.max.size"] = str(self._max_members)
        if self.has_expiration:
            found["offsets.retention.minutes"] = str(_RETENTION_MINUTES)
            found["offsets.retention.check.interval.ms"] = "5000"
        return found

    def member_options(self, usual: Options) -> Options:
        """What one member does differently."""
        options: Options = dict(usual)
        if self.is_mixed:
            options |= self._protocol(options)
        if self.has_racks:
            options["client_rack"] = self.random.choice(_RACKS)
        if self.has_patterns or self.has_two_topics or self.has_administrator:
            # A member that asks for a topic that was deleted would make it again.
            options["allow_auto_create_topics"] = False
            options["metadata_max_age_ms"] = 5000
        return options

    def _protocol(self, options: Options) -> Options:
        for name in ("partition_assignment_strategy", "session_timeout_ms"):
            options.pop(name, None)
        for name in ("heartbeat_interval_ms", "group_remote_assignor"):
            options.pop(name, None)
        if self.random.random() < 0.5:
            assignor = self.random.choice(("uniform", "range"))
            return {"group_protocol": "consumer", "group_remote_assignor": assignor}
        # All of them have one in common, or they could not be in one group.
        assignors = self.random.choice((["range"], ["cooperative-sticky", "range"]))
        return {
            "group_protocol": "classic",
            "partition_assignment_strategy": assignors,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 1000,
        }

    def subscription(self, options: Options) -> tuple[list[str], str | None]:
        """Names of topics, or a pattern. The main topic is part of it in any case."""
        if self.has_patterns and self.random.random() < 0.7:
            is_classic = options["group_protocol"] == "classic"
            return [], self.random.choice(PATTERNS if is_classic else BROKER_PATTERNS)
        if self.has_two_topics and self.random.random() < 0.5:
            return [self._main_topic, MORE], None
        return [self._main_topic], None

    @property
    def more_topics(self) -> dict[str, int]:
        """Beside the main one, with their partitions."""
        return {MORE: 2} if self.has_two_topics or self.has_administrator else {}
