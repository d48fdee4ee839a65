"""The management port of one broker, from the first moment of its start to the last of its stop.

The broker opens it before everything else, so that `/status` tells how far the recovery of logs is.
When the broker is ready, the port is given its parts (`attach`), and from then on it serves
metrics.
"""

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from odradek.broker.management.endpoints import Endpoints
from odradek.broker.management.health import Health
from odradek.broker.management.http_server import HostRule, HttpServer
from odradek.broker.network.listeners import CannotListen
from odradek.config import BrokerSettings, Listener
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.components import Components
    from odradek.broker.dispatch import Dispatcher
    from odradek.broker.network.request_meter import RequestMeter
    from odradek.broker.network.server import Server

logger = logging.getLogger("odradek.server")

# A stall is logged if it is so long; shorter ones are in the metrics.
_TOLD_STALL_S = 1.0


class ManagementPort:
    def __init__(self, settings: BrokerSettings, listener: Listener, world: World) -> None:
        self._settings = settings
        self._listener = listener
        self._world = world
        self.health = Health(world)
        self._endpoints = Endpoints(self.health, world.clock)
        names = [
            listener.host,
            *(one.host for one in settings.effective_advertised_listeners),
            *settings.odradek_management_allowed_hosts,
        ]
        self._http = HttpServer(self._endpoints.answer, HostRule(filter(None, names)))
        self.url = ""

    async def open(self) -> None:
        """Listens; raises `CannotListen`."""
        listener = self._listener
        try:
            port = await self._http.open(listener.host, listener.port)
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {listener.host}:{listener.port} for the management port:"
                f" {error.strerror or error}; choose another address with management.listener"
            ) from error
        self.url = str(listener._replace(port=port))
        logger.info("metrics and health are served at %s", self.url)

    async def close(self) -> None:
        await self._http.close()

    def attach(
        self, components: "Components", server: "Server", dispatcher: "Dispatcher"
    ) -> tuple["RequestMeter", list[Coroutine[Any, Any, None]]]:
        """Called when the broker is about to accept clients. Returns what stands between the
        connections and the dispatcher, and what runs beside the requests."""
        # Not needed while logs are loaded, and imported after the first probe can be answered.
        from odradek.broker.management.lag import LagMonitor  # noqa: PLC0415
        from odradek.broker.management.leadership_observer import LeadershipObserver  # noqa: PLC0415
        from odradek.broker.management.rates import BrokerCounters, Rates  # noqa: PLC0415
        from odradek.broker.management.sources import LoopIdle, Sources  # noqa: PLC0415
        from odradek.broker.network.request_meter import RequestMeter  # noqa: PLC0415
        from odradek.broker.network.traffic import Traffic  # noqa: PLC0415
        from odradek.telemetry.stalls import StallMonitor  # noqa: PLC0415

        services, clock = components.services, self._world.clock
        cache = services.images.cache
        leadership = LeadershipObserver(services.broker_id, clock)
        cache.subscribe(leadership.follow)
        traffic = Traffic(lambda: cache.image)
        max_partitions = self._settings.odradek_metrics_max_partitions
        sources = Sources(
            components,
            server,
            RequestMeter(dispatcher, traffic, clock, self._settings.odradek_metrics_max_client_ids),
            traffic,
            StallMonitor(clock, warn_s=_TOLD_STALL_S),
            leadership,
            LoopIdle(clock),
            LagMonitor(services, components.peers, max_partitions),
            lambda: not self.health.reasons(),
            max_partitions,
        )
        rates = Rates(clock)
        self._endpoints.attach(sources, rates)
        counters = BrokerCounters(sources)
        return sources.meter, [
            sources.stalls.run(),
            sources.lag.run(),
            rates.run(counters.collect),
        ]
