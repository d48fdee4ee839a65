"""Which transactions a snapshot of the database has seen."""

from typing import NamedTuple

_HALF: int = 1 << 31
_EPOCH: int = 1 << 32


class Visibility(NamedTuple):
    """What `pg_current_snapshot()` says: transactions before `lowest` have ended, those from `next`
    on had not begun, and of those between, `running` had not ended."""

    lowest: int
    next: int
    running: frozenset[int]
    text: str

    def sees(self, xid: int) -> bool:
        """`xid` has 32 bits, as in the log; those of a snapshot have 64."""
        whole = self.next - self.next % _EPOCH + xid
        if whole > self.next + _HALF:
            whole -= _EPOCH
        elif whole < self.next - _HALF:
            whole += _EPOCH
        return whole < self.lowest or (whole < self.next and whole not in self.running)


def visibility(text: str) -> Visibility:
    """Reads `10:20:10,14,15`."""
    lowest, following, running = text.split(":")
    return Visibility(
        int(lowest),
        int(following),
        frozenset(int(xid) for xid in running.split(",") if xid),
        text,
    )
