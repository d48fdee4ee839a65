"""A balance plan: what moves where, what it costs, and how the cluster looks before and after."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.ops.balance.model import ClusterModel, Replicas, Resource
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """New replicas of a partition. If only their order changes, no data moves."""

    partition: TopicPartition
    before: Replicas
    after: Replicas
    size_bytes: int = 0
    leader: int = -1
    """The broker that leads before, from which new replicas copy."""
    rate: float = 0.0

    @property
    def adding(self) -> Replicas:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> Replicas:
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def bytes_to_move(self) -> int:
        return self.size_bytes * len(self.adding)


@dataclass(frozen=True, slots=True)
class GoalResult:
    """The cost of a goal before and after; 0 is met."""

    name: str
    is_hard: bool
    before: float
    after: float

    @property
    def is_met(self) -> bool:
        return self.after <= 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves and elections, with the model that they were computed from."""

    before: ClusterModel
    after: ClusterModel
    moves: tuple[Move, ...]
    elections: tuple[TopicPartition, ...]
    """Partitions that keep their replicas, but whose first replica does not lead now. Those that
    move get their leader when they arrive."""
    goals: tuple[GoalResult, ...]
    warnings: tuple[str, ...] = ()

    @property
    def data_moves(self) -> list[Move]:
        return [move for move in self.moves if move.adding]

    @property
    def replicas_moved(self) -> int:
        return sum(len(move.adding) for move in self.moves)

    @property
    def bytes_to_move(self) -> int:
        return sum(move.bytes_to_move for move in self.moves)

    @property
    def is_empty(self) -> bool:
        return not self.moves and not self.elections

    def spread(self, model: ClusterModel, resource: Resource) -> float:
        """Returns how far the broker that is furthest from the average is from it, as a share."""
        loads = model.current_loads()
        values = [loads[broker][resource] for broker in model.alive]
        average = sum(values) / max(1, len(values))
        return max((abs(value - average) for value in values), default=0.0) / (average or 1.0)


def waves(moves: Sequence[Move], max_moves: int, max_bytes: int) -> list[list[Move]]:
    """Divides moves into waves. In a wave, no broker sends or receives more than `max_moves`
    replicas, and no more than `max_bytes` move in all, unless a single move is larger. Large moves
    come first, so that the end of a run is not one long move."""
    left = sorted(moves, key=lambda move: (-move.bytes_to_move, move.partition))
    result: list[list[Move]] = []
    while left:
        busy: defaultdict[int, int] = defaultdict(int)
        total = 0
        wave: list[Move] = []
        rest: list[Move] = []
        for move in left:
            brokers = (*move.adding, move.leader)
            fits = total + move.bytes_to_move <= max_bytes and all(
                busy[broker] < max_moves for broker in brokers
            )
            if fits or not wave:
                wave.append(move)
                total += move.bytes_to_move
                for broker in brokers:
                    busy[broker] += 1
            else:
                rest.append(move)
        result.append(wave)
        left = rest
    return result


def expected_s(divided: Iterable[Sequence[Move]], throttle: int) -> float:
    """Returns how long waves take at a throttle in bytes a second: in each, as long as the broker
    that sends or receives most. Producers that write meanwhile make it longer."""
    total = 0.0
    for wave in divided:
        transfers: defaultdict[tuple[str, int], int] = defaultdict(int)
        for move in wave:
            for broker in move.adding:
                transfers["in", broker] += move.size_bytes
                transfers["out", move.leader] += move.size_bytes
        total += max(transfers.values(), default=0) / throttle
    return total


def shown_bytes(amount: float) -> str:
    """Returns bytes with a unit: `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
