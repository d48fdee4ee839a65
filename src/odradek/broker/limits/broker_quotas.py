"""The quotas of one broker, as the rest of the broker sees them.

It follows the cluster's image. With the first quota it puts `RequestLimits` between the dispatcher
and its handlers, and takes it away with the last one.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.config.live import LiveSettings
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.security.quotas.entities import CONTROLLER_MUTATION_RATE, QuotaEntity
from odradek.world import Clock

if TYPE_CHECKING:
    from odradek.broker.dispatch import Dispatcher
    from odradek.broker.network.connections import Connections
    from odradek.broker.services import RequestContext
    from odradek.security.quotas.clients import ClientQuotas

MIN_THROTTLE_S: Final = 0.001
"""A shorter wait is none: the protocol has milliseconds, and it is not worth a timer."""

# How many entries are looked at in one step, in a fraction of a millisecond.
_EXPIRED_AT_ONCE: Final = 500


class BrokerQuotas:
    """`clients` is None while no quota is set."""

    __slots__ = (
        "_clock",
        "_connections",
        "_dispatcher",
        "_expiry",
        "_quotas",
        "_settings",
        "clients",
    )

    def __init__(self, settings: LiveSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.clients: ClientQuotas | None = None
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._dispatcher: Dispatcher | None = None
        self._connections: Connections | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def attach(self, dispatcher: "Dispatcher", connections: "Connections") -> None:
        """Called when the broker is about to accept clients."""
        self._dispatcher, self._connections = dispatcher, connections
        self._put_in_force()

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Called with the quotas of every new image of the cluster."""
        if quotas is not self._quotas and quotas != self._quotas:
            self._quotas = quotas
            self._put_in_force()

    def _put_in_force(self) -> None:
        if not self._quotas and self.clients is None:
            return
        if self.clients is None:
            from odradek.security.quotas.clients import ClientQuotas  # noqa: PLC0415 - if there are quotas
            from odradek.security.quotas.rates import Windows  # noqa: PLC0415

            settings = self._settings.broker
            self.clients = ClientQuotas(
                Windows(settings.quota_window_num, settings.quota_window_size_seconds),
                Windows(
                    settings.controller_quota_window_num,
                    settings.controller_quota_window_size_seconds,
                ),
            )
        self.clients.follow(self._quotas)
        if self._dispatcher is None or self._connections is None:
            return  # The broker still starts.
        self._connections.address_quotas = self.clients if self.clients.limits_connections else None
        if self.clients.limits_requests:
            from odradek.broker.limits.request_limits import RequestLimits  # noqa: PLC0415

            self._dispatcher.limit_by(
                RequestLimits(self.clients, self._dispatcher.serve, self._clock)
            )
        else:
            self._dispatcher.limit_by(None)
        if not self._quotas:
            self.clients = None  # What was used is forgotten.
        elif self._expiry is None:
            self._schedule_expiry()

    def take_mutations(
        self, context: "RequestContext", partitions: int, *, strict_from: int
    ) -> None:
        """Counts partitions that a request is about to create or delete (KIP-599).

        Raises `ApiError` if the client has used up its quota and its request has the version
        `strict_from` or a later one. An older client does not know that error: its request is
        carried out, and it has to wait afterwards.
        """
        if self.clients is None:
            return
        user, client_id = context.connection.principal.name, context.client_id or ""
        limit = self.clients.limits_of(user, client_id).mutation
        if limit is None:
            return
        now_s = self._clock.monotonic_s()
        is_strict = context.version >= strict_from
        owed_s = self.clients.owed_s(CONTROLLER_MUTATION_RATE, limit, now_s)
        if is_strict and owed_s >= MIN_THROTTLE_S:
            context.note_throttle(owed_s)
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The quota {CONTROLLER_MUTATION_RATE}={limit.value:g} is used up; try again in"
                f" {owed_s:.1f} s.",
            )
        owed_s = self.clients.use(CONTROLLER_MUTATION_RATE, limit, partitions, now_s)
        if not is_strict:
            context.note_throttle(owed_s)

    # What is not used any more is forgotten

    def _schedule_expiry(self, delay_s: float | None = None) -> None:
        if self.clients is None:
            self._expiry = None
            return
        if delay_s is None:
            delay_s = self.clients.windows.span_s
        self._expiry = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        clients = self.clients
        if clients is None:
            self._expiry = None
            return
        before = len(clients)
        forgotten = clients.expire(self._clock.monotonic_s(), _EXPIRED_AT_ONCE)
        # If most were forgotten there are probably more: they follow soon, others in between.
        is_behind = before > _EXPIRED_AT_ONCE and forgotten > _EXPIRED_AT_ONCE // 2
        self._schedule_expiry(0.01 if is_behind else None)

    def close(self) -> None:
        """Called when the broker stops."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
