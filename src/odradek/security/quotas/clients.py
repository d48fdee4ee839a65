"""The quotas of all clients of one broker: their rules, and what has been used.

Quotas are per broker, as in Kafka. What a client has used is kept here and not with its connection,
so that all connections of a client share it and a client that connects again has not gained
anything.

Memory is bounded: what nobody has used for so long that a new start would be the same is forgotten
(`expire`), and of the rest no more than `MAX_ENTRIES` are kept. Beyond that the oldest is forgotten
before its time, which helps its client no more than another client id would.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from odradek.security.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from odradek.security.quotas.rates import Allowance, TokenBucket, Windows
from odradek.security.quotas.rules import Limit, QuotaRules

MAX_ENTRIES: Final = 50_000
# How many clients' limits are remembered after they were looked up.
_MAX_RESOLVED: Final = 10_000
# With each new entry so many old ones are looked at: the table shrinks faster than it grows.
_EXPIRED_PER_ENTRY: Final = 2
# How long an entry stays at least after its last use, so that metrics show it.
_KEPT_S: Final = 60.0

_Key = tuple[str, str | None, str | None]


class ClientLimits(NamedTuple):
    """The limits of one client; None where it has none."""

    produce: Limit | None
    fetch: Limit | None
    request: Limit | None
    mutation: Limit | None


class Used(NamedTuple):
    """What those who share a quota have used, for metrics."""

    kind: str
    user: str
    client_id: str
    per_second: float
    throttle_s: float


class ClientQuotas:
    """Invariant: there are no more than `max_entries` entries."""

    def __init__(
        self,
        windows: Windows,
        mutation_windows: Windows,
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.windows = windows
        self.mutation_windows = mutation_windows
        self._max_entries = max_entries
        self._rules: dict[str, QuotaRules] = {}
        self._resolved: dict[tuple[str, str], ClientLimits] = {}
        # In the order in which they were made or were found to be in use.
        # Not a dict: that searches its first entry among all those which were removed before.
        self._allowances: OrderedDict[_Key, Allowance | TokenBucket] = OrderedDict()
        self.follow({})

    def __len__(self) -> int:
        return len(self._allowances)

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Puts quotas in force. What was used so far stays."""
        self._resolved.clear()
        self._rules = {
            key: QuotaRules(quotas, key)
            for key in (
                PRODUCER_BYTE_RATE,
                CONSUMER_BYTE_RATE,
                REQUEST_PERCENTAGE,
                CONTROLLER_MUTATION_RATE,
                CONNECTION_CREATION_RATE,
            )
        }

    @property
    def limits_requests(self) -> bool:
        """Whether any client has a quota on its requests, of whatever kind."""
        return not all(
            rules.is_empty for key, rules in self._rules.items() if key != CONNECTION_CREATION_RATE
        )

    @property
    def limits_time(self) -> bool:
        """Whether any client has a quota on the time of its requests."""
        return not self._rules[REQUEST_PERCENTAGE].is_empty

    @property
    def limits_connections(self) -> bool:
        """Whether any address has a quota on its connections."""
        return not self._rules[CONNECTION_CREATION_RATE].is_empty

    def limits_of(self, user: str, client_id: str) -> ClientLimits:
        limits = self._resolved.get((user, client_id))
        if limits is None:
            if len(self._resolved) >= _MAX_RESOLVED:
                self._resolved.clear()
            rules = self._rules
            limits = self._resolved[user, client_id] = ClientLimits(
                rules[PRODUCER_BYTE_RATE].limit(user, client_id),
                rules[CONSUMER_BYTE_RATE].limit(user, client_id),
                rules[REQUEST_PERCENTAGE].limit(user, client_id),
                rules[CONTROLLER_MUTATION_RATE].limit(user, client_id),
            )
        return limits

    # What requests use. All return for how many seconds the client has to wait.

    def use(self, kind: str, limit: Limit, amount: float, now_s: float) -> float:
        """Counts what a request has used."""
        found = self._allowance((kind, limit.user, limit.client_id), now_s)
        return found.use(amount, limit.value, self._windows_of(kind), now_s)

    def owed_s(self, kind: str, limit: Limit, now_s: float) -> float:
        """Returns the wait of a client that uses nothing more."""
        found = self._allowances.get((kind, limit.user, limit.client_id))
        if found is None:
            return 0.0
        return found.owed_s(limit.value, self._windows_of(kind), now_s)

    def most_at_once(self, limit: Limit) -> float:
        """Returns how much one request may use at most, so that the wait after it is bearable: half
        of what may be used at once."""
        return limit.value * self.windows.size_s / 2

    def connect(self, address: str, now_s: float) -> float:
        """Counts a new connection. Returns 0 if it is within the quota of its address. Else it is
        to be refused, and does not count: returns after how many seconds to close it."""
        value = self._rules[CONNECTION_CREATION_RATE].limit_of_address(address)
        if value is None:
            return 0.0
        found = self._allowance((CONNECTION_CREATION_RATE, None, address), now_s)
        owed_s = found.owed_s(value, self.windows, now_s)
        if owed_s <= 0:
            found.use(1, value, self.windows, now_s)
            return 0.0
        found.throttle_s = min(owed_s, self.windows.size_s)
        return found.throttle_s

    def _windows_of(self, kind: str) -> Windows:
        return self.mutation_windows if kind == CONTROLLER_MUTATION_RATE else self.windows

    # The table

    def _allowance(self, key: _Key, now_s: float) -> Allowance | TokenBucket:
        found = self._allowances.get(key)
        if found is None:
            self.expire(now_s, _EXPIRED_PER_ENTRY)
            if len(self._allowances) >= self._max_entries:
                self._allowances.popitem(last=False)
            found = TokenBucket() if key[0] == CONTROLLER_MUTATION_RATE else Allowance()
            self._allowances[key] = found
        return found

    def expire(self, now_s: float, steps: int) -> int:
        """Looks at some entries, those first that nobody has looked at for longest. Forgets them if
        they are not used any more; returns how many it has forgotten."""
        allowances = self._allowances
        forgotten = 0
        for _ in range(min(steps, len(allowances))):
            key, found = allowances.popitem(last=False)
            is_idle = found.used_s <= now_s - _KEPT_S
            if is_idle and found.is_forgotten(self._windows_of(key[0]), now_s):
                forgotten += 1
            else:
                allowances[key] = found
        return forgotten

    def used(self, now_s: float) -> Iterator[Used]:
        """Returns what is used, for metrics. The address of a quota on connections is in the place
        of the client id."""
        for (kind, user, client_id), found in list(self._allowances.items()):
            if isinstance(found, TokenBucket):
                limit = self._rules[kind].limit(user or "", client_id or "")
                value = limit.value if limit is not None else 0.0
                rate = found.tokens(value, self.mutation_windows, now_s)
            else:
                rate = found.per_second(self.windows, now_s)
            yield Used(kind, user or "", client_id or "", rate, found.throttle_s)
