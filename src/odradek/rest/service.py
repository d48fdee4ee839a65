"""The REST proxy: its endpoints, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from odradek.rest.schema_formats import SchemaFormats
from odradek.rest.settings import RestSettings
from odradek.rest.v2.consumers import Consumers
from odradek.rest.v2.instances import Instances
from odradek.rest.v2.topics import Topics as TopicsV2
from odradek.rest.v3.acls import Acls
from odradek.rest.v3.clusters import Clusters
from odradek.rest.v3.configs import Configs
from odradek.rest.v3.groups import Groups
from odradek.rest.v3.partitions import Partitions
from odradek.rest.v3.reading import Reading
from odradek.rest.v3.records import Records
from odradek.rest.v3.resources import ClusterId
from odradek.rest.v3.topics import Topics
from odradek.services.running import Service
from odradek.web.endpoints import Endpoint


class RestService(Service):
    title = "Odradek REST proxy"

    def __init__(self, settings: RestSettings) -> None:
        super().__init__(settings)
        self._rest_settings = settings
        self.formats = SchemaFormats(settings.registry_properties())
        self.instances = Instances(settings, self.pool)

    def endpoints(self) -> list[Endpoint]:
        settings = self._rest_settings
        endpoints: list[Endpoint] = []
        if settings.api_v2_enable:
            endpoints += TopicsV2(self, self.formats).endpoints()
            endpoints += Consumers(self, settings, self.instances, self.formats).endpoints()
        if settings.api_v3_enable:
            cluster = ClusterId()
            for kind in (Clusters, Topics, Configs, Partitions, Acls, Groups):
                endpoints += kind(self, cluster).endpoints()
            endpoints += Records(self, cluster, settings, self.formats).endpoints()
            max_bytes = settings.consumer_request_max_bytes
            endpoints += Reading(self, cluster, self.formats, max_bytes).endpoints()
        return endpoints

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.instances.running():
            yield
