"""Charts over hours and days, from Prometheus."""

from starlette.responses import Response

from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.prometheus import RANGES, Prometheus, Series
from odradek.console.rights import require_on_cluster
from odradek.protocol.acls import Operation
from odradek.protocol.errors import KafkaError
from odradek.web.endpoints import Endpoint
from odradek.web.media import JSON
from odradek.web.problems import Problem, json_response


class HistoryPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/history", self._history, "Figures of days, for charts.", produces=(JSON,)),
        ]

    async def _history(self, asked: PageRequest) -> Response:
        """Prometheus does not know who asks, so the brokers are asked first whether the user may
        see the topic, the group, or the whole cluster."""
        prometheus = asked.cluster.prometheus
        if prometheus is None:
            raise Problem(404, "no Prometheus is configured: set prometheus.url")
        hours = shown_hours(asked)
        if not hours:
            raise BadForm(f"hours: one of {', '.join(map(str, RANGES))}")
        series = await self._series(asked, prometheus)
        return json_response(await prometheus.points(series, hours))

    async def _series(self, asked: PageRequest, prometheus: Prometheus) -> list[Series]:
        query = asked.query
        if name := query.text("topic"):
            await asked.topic(name)
            return prometheus.of_topic(name)
        if name := query.text("group"):
            found = (await asked.admin.describe_groups([name]))[name]
            if isinstance(found, KafkaError):
                raise found
            return prometheus.of_group(name)
        await require_on_cluster(
            asked, Operation.DESCRIBE, "may not see the figures of the whole cluster"
        )
        return prometheus.of_cluster()


def shown_hours(asked: PageRequest) -> int:
    """Returns how many hours of Prometheus' history a page is asked to show; 0 is the last hour,
    which the console knows itself."""
    text = asked.query.text("hours")
    is_known = asked.cluster.prometheus is not None and text.isdecimal() and len(text) < 5
    return int(text) if is_known and int(text) in RANGES else 0
