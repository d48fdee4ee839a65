"""How use is measured, and how long a client waits that has used too much.

`SampledRate` is Kafka's rate: use is added up in samples of `quota.window.size.seconds`, of which
`quota.window.num` are kept. The rate is what all of them hold, divided by the time that they span,
and by no less than all windows but one. A client whose rate is above its limit waits until the
excess would have been used at the limit.

That alone lets a client use ten seconds' worth at once, and as much again each time its oldest
sample is dropped, so its rate over twenty seconds is up to a third above the limit. Therefore an
`Allowance` also spreads use over time: no more than one window's worth may be used at once, and
what goes beyond is waited for (decision 38).
"""

from typing import Final, NamedTuple

_NEVER: Final = float("-inf")


class Windows(NamedTuple):
    """How use is sampled: `number` windows of `size_s` seconds."""

    number: int = 11
    size_s: float = 1.0

    @property
    def span_s(self) -> float:
        """How long use is remembered."""
        return self.number * self.size_s


class SampledRate:
    """Use by window. Invariant: starts rise, and no sample is older than all windows together."""

    __slots__ = ("_amounts", "_starts_s")

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._amounts: list[float] = []

    def add(self, amount: float, windows: Windows, now_s: float) -> None:
        self._drop_old(windows, now_s)
        if self._starts_s and now_s - self._starts_s[-1] < windows.size_s:
            self._amounts[-1] += amount
        else:
            self._starts_s.append(now_s)
            self._amounts.append(amount)

    def per_second(self, windows: Windows, now_s: float) -> float:
        self._drop_old(windows, now_s)
        return sum(self._amounts) / self.spanned_s(windows, now_s)

    def excess_s(self, limit: float, windows: Windows, now_s: float) -> float:
        """Returns how long the use above the limit would take at the limit; negative if there is
        none."""
        self._drop_old(windows, now_s)
        return sum(self._amounts) / limit - self.spanned_s(windows, now_s)

    def spanned_s(self, windows: Windows, now_s: float) -> float:
        """Returns by which time use is divided. A client that has just begun is not judged by its
        first moment: its time counts as if all windows but the last had passed."""
        elapsed_s = now_s - self._starts_s[0] if self._starts_s else 0.0
        missing = windows.number - 1 - int(elapsed_s // windows.size_s)
        if missing > 0:
            elapsed_s += missing * windows.size_s
        return max(elapsed_s, windows.size_s)

    def _drop_old(self, windows: Windows, now_s: float) -> None:
        starts_s = self._starts_s
        oldest_s = now_s - windows.span_s
        if starts_s and starts_s[0] <= oldest_s:
            kept = next((i for i, start_s in enumerate(starts_s) if start_s > oldest_s), None)
            if kept is None:
                starts_s.clear()
                self._amounts.clear()
            else:
                del starts_s[:kept], self._amounts[:kept]


class Allowance:
    """What those who share a quota have used of it. One object for each of them and each quota."""

    __slots__ = ("_due_s", "_rate", "throttle_s", "used_s")

    def __init__(self) -> None:
        self._rate = SampledRate()
        # When all use so far would have taken place at the limit.
        self._due_s = _NEVER
        # When it was used last, and how long the client had to wait then.
        self.used_s = _NEVER
        self.throttle_s = 0.0

    def use(self, amount: float, limit: float, windows: Windows, now_s: float) -> float:
        """Counts use. Returns for how many seconds the client has to wait; 0 if it need not."""
        self._rate.add(amount, windows, now_s)
        self._due_s = max(self._due_s, now_s - windows.size_s) + amount / limit
        self.used_s = now_s
        self.throttle_s = self.owed_s(limit, windows, now_s)
        return self.throttle_s

    def owed_s(self, limit: float, windows: Windows, now_s: float) -> float:
        """Returns for how long a client has to wait that has used nothing more; 0 if it need
        not."""
        return max(self._due_s - now_s, self._rate.excess_s(limit, windows, now_s), 0.0)

    def per_second(self, windows: Windows, now_s: float) -> float:
        """Returns the sampled rate."""
        return self._rate.per_second(windows, now_s)

    def is_forgotten(self, windows: Windows, now_s: float) -> bool:
        """Returns whether it knows nothing that a new one would not know."""
        return self.used_s <= now_s - windows.span_s and self._due_s <= now_s - windows.size_s


class TokenBucket:
    """What those who share a quota on changes of topics may still do (KIP-599).

    Tokens come at the limit's rate, up to what all windows together bring. A change is allowed
    while there are not less than none, and may take more than there are: a topic with many
    partitions is created at once, and the next change waits until the tokens are back.
    """

    __slots__ = ("_full_s", "_tokens", "throttle_s", "used_s")

    def __init__(self) -> None:
        self._tokens = 0.0
        # When it will be full again; it is full before its first use.
        self._full_s = _NEVER
        self.used_s = _NEVER
        self.throttle_s = 0.0

    def tokens(self, limit: float, windows: Windows, now_s: float) -> float:
        burst = limit * windows.span_s
        if self.used_s == _NEVER:
            return burst
        return min(self._tokens + limit * (now_s - self.used_s), burst)

    def use(self, amount: float, limit: float, windows: Windows, now_s: float) -> float:
        """Takes tokens. Returns for how many seconds there are less than none; 0 if there are
        enough."""
        self._tokens = self.tokens(limit, windows, now_s) - amount
        self.used_s = now_s
        self._full_s = now_s + windows.span_s - self._tokens / limit
        self.throttle_s = self.owed_s(limit, windows, now_s)
        return self.throttle_s

    def owed_s(self, limit: float, windows: Windows, now_s: float) -> float:
        """Returns for how many seconds there are less tokens than none."""
        return max(-self.tokens(limit, windows, now_s) / limit, 0.0)

    def is_forgotten(self, windows: Windows, now_s: float) -> bool:
        """Returns whether it is full again, as a new one is."""
        return self._full_s <= now_s
