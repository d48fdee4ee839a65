"""Who may change connectors, where callers log in (docs/decisions/0075-log-ins-of-a-worker.md).

A connector works while nobody asks, so it logs in to the brokers as the worker. Who may make one
may therefore do what the worker may. The brokers decide: they are asked, as the caller, whether the
caller may write to the worker's topic of configurations (of offsets, if it is standalone).
"""

from typing import TYPE_CHECKING

from starlette.requests import Request

from odradek.connect.worker.settings import DistributedSettings, StandaloneSettings
from odradek.services.permissions import may_write
from odradek.web.guards import PRINCIPAL
from odradek.web.problems import Problem

if TYPE_CHECKING:
    from odradek.services.running import Service


class Authorization:
    def __init__(
        self, service: "Service", settings: StandaloneSettings | DistributedSettings
    ) -> None:
        self._service = service
        self._topic = (
            settings.config_storage_topic
            if isinstance(settings, DistributedSettings)
            else settings.offset_storage_topic
        )

    async def check(self, request: Request) -> None:
        """Raises a `Problem` if the caller may not change connectors."""
        async with self._service.clients(request) as clients:
            if await may_write(clients, [self._topic]):
                return
        raise Problem(
            403,
            f"{request.scope[PRINCIPAL]} may not change connectors: it needs WRITE on topic"
            f" {self._topic}",
        )
