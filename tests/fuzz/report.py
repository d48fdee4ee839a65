"""What a run measured, and whether that is good enough."""

from dataclasses import dataclass, field

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may cost at most."""

    canary_p99_ms: float = 50
    # A batch may open to 32 MiB inside and is held twice while it is written anew (decision 18);
    # the rest is what the loop, its buffers and the threads' arenas keep.
    memory_growth_bytes: int = 128 * MEBIBYTE
    stall_ms: float = 100


@dataclass(slots=True)
class Report:
    inputs: int
    elapsed_s: float
    sent_bytes: int
    outcomes: dict[str, int]
    by_kind: dict[str, int]
    violations: list[str]
    slowest: list[tuple[float, str]]
    violation_count: int
    crowd_closed: int
    crowd_size: int
    topics_made_by_chance: int
    is_alive: bool
    memory_before_bytes: int
    memory_peak_bytes: int
    memory_after_bytes: int
    canary: dict[str, float] = field(default_factory=dict)
    canary_failures: list[str] = field(default_factory=list)

    @property
    def memory_growth_bytes(self) -> int:
        return self.memory_peak_bytes - self.memory_before_bytes

    def faults(self, limits: Limits) -> list[str]:
        """One line for each promise that was not kept."""
        faults = []
        if not self.is_alive:
            faults.append("the broker has died")
        if self.violation_count:
            faults.append(f"{self.violation_count} inputs were not answered as they should be")
        if self.canary_failures:
            faults.append(f"the canary failed: {self.canary_failures[0]}")
        if not self.canary.get("round_trips"):
            faults.append("the canary never completed a round trip")
        elif self.canary["p99_ms"] > limits.canary_p99_ms:
            faults.append(f"canary p99 {self.canary['p99_ms']} ms > {limits.canary_p99_ms} ms")
        if self.canary.get("longest_stall_ms", 0) > limits.stall_ms:
            stall = self.canary["longest_stall_ms"]
            faults.append(f"the broker stood still for {stall} ms > {limits.stall_ms} ms")
        if self.memory_growth_bytes > limits.memory_growth_bytes:
            growth = self.memory_growth_bytes // MEBIBYTE
            faults.append(f"memory grew by {growth} MiB > {limits.memory_growth_bytes // MEBIBYTE}")
        return faults

    def lines(self) -> list[str]:
        rate = self.inputs / self.elapsed_s if self.elapsed_s else 0
        canary = self.canary
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.by_kind.items()))
        outcomes = ", ".join(f"{kind} {count}" for kind, count in sorted(self.outcomes.items()))
        memory = [self.memory_before_bytes, self.memory_peak_bytes, self.memory_after_bytes]
        before, peak, after = (size / MEBIBYTE for size in memory)
        sent = self.sent_bytes / MEBIBYTE
        rows = {
            "inputs": f"{self.inputs} in {self.elapsed_s:.0f} s, {rate:.0f}/s, {sent:.1f} MiB",
            "kinds": kinds,
            "outcomes": outcomes,
            "violations": str(self.violation_count),
            "crowd": f"{self.crowd_closed} of {self.crowd_size} connections were closed",
            "topics by chance": str(self.topics_made_by_chance),
            "memory": f"{before:.1f} MiB before, {peak:.1f} at most, {after:.1f} after",
            "canary": (
                "{round_trips} round trips; ms: p50 {p50_ms}, p99 {p99_ms}, max {max_ms}"
                " (p99 by the clock {clock_p99_ms})"
            ),
            "longest stall": (
                "{longest_stall_ms} ms, {stalls} over 100 ms in {probes} probes"
                " (by the clock {clock_longest_stall_ms})"
            ),
        }
        for name in ("canary", "longest stall"):
            rows[name] = rows[name].format_map(canary) if canary else "nothing measured"
        return [f"{name:<18}{text}" for name, text in rows.items()]
