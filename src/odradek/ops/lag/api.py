"""Burrow's HTTP API v3: clusters, topics, consumer groups, their statuses, and metrics."""

from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from odradek.ops.lag.evaluation import Status
from odradek.ops.lag.metrics import collect
from odradek.ops.lag.report import status_json, window_json
from odradek.ops.lag.service import LagService
from odradek.telemetry.exposition import content_type, render
from odradek.web.endpoints import Endpoint
from odradek.web.problems import json_response
from odradek.world.timeslice import Timeslice

_CLUSTER = "/v3/kafka/{cluster}"
_GROUP = f"{_CLUSTER}/consumer/{{group}}"


class BurrowApi:
    """The endpoints of a lag service. They only read, except for DELETE: it removes what the
    service remembers about a group, and not the group itself."""

    def __init__(self, service: LagService) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/burrow/admin", self._alive, "Whether the service is alive."),
            Endpoint(
                "GET", "/burrow/admin/ready", self._ready, "Whether the brokers answer the service."
            ),
            Endpoint("GET", "/metrics", self._metrics, "Lag and statuses for Prometheus."),
            Endpoint("GET", "/v3/kafka", self._clusters, "A list with the name of the cluster."),
            Endpoint("GET", _CLUSTER, self._describe_cluster, "Describes the cluster."),
            Endpoint("GET", f"{_CLUSTER}/topic", self._topics, "The topics that groups read."),
            Endpoint(
                "GET", f"{_CLUSTER}/topic/{{topic}}", self._topic, "The end offsets of a topic."
            ),
            Endpoint(
                "GET",
                f"{_CLUSTER}/topic/{{topic}}/consumers",
                self._consumers,
                "The groups that read a topic.",
            ),
            Endpoint("GET", f"{_CLUSTER}/consumer", self._groups, "The consumer groups."),
            Endpoint("GET", _GROUP, self._group, "The window of commits of each partition."),
            Endpoint(
                "GET",
                f"{_GROUP}/status",
                self._status,
                "The status of a group, with the partitions that are not OK.",
            ),
            Endpoint(
                "GET", f"{_GROUP}/lag", self._lag, "The status of a group, with all partitions."
            ),
            Endpoint(
                "DELETE", _GROUP, self._forget, "Forgets the history of a group.", changes=True
            ),
        ]

    async def _alive(self, request: Request) -> Response:
        return PlainTextResponse("GOOD")

    async def _ready(self, request: Request) -> Response:
        if self._service.is_ready:
            return PlainTextResponse("READY")
        return PlainTextResponse("STARTING", 503)

    async def _metrics(self, request: Request) -> Response:
        format_ = content_type(request.headers.get("accept", ""))
        samples = collect(self._service).samples
        text = await Timeslice.of_running_loop().run(render(samples, format_))
        return Response(text, media_type=format_)

    async def _clusters(self, request: Request) -> Response:
        return _answer(request, "cluster list returned", clusters=[self._service.cluster])

    async def _describe_cluster(self, request: Request) -> Response:
        if not self._knows(request):
            return _missing(request, "cluster module not found")
        module = {"class-name": "kafka", "servers": [], "topic-refresh": 0, "offset-refresh": 0}
        return _answer(request, "cluster module detail returned", module=module)

    async def _topics(self, request: Request) -> Response:
        if not self._knows(request):
            return _missing(request, "cluster not found")
        return _answer(request, "topic list returned", topics=self._service.history.topics)

    async def _topic(self, request: Request) -> Response:
        ends = self._service.history.ends(request.path_params["topic"])
        if not self._knows(request) or ends is None:
            return _missing(request, "cluster or topic not found")
        return _answer(request, "topic offsets returned", offsets=ends)

    async def _consumers(self, request: Request) -> Response:
        if not self._knows(request):
            return _missing(request, "cluster not found")
        consumers = self._service.history.consumers_of(request.path_params["topic"])
        return _answer(request, "consumers of topic returned", consumers=consumers)

    async def _groups(self, request: Request) -> Response:
        if not self._knows(request):
            return _missing(request, "cluster not found")
        groups = self._service.history.groups
        return _answer(request, "consumer list returned", consumers=groups)

    async def _group(self, request: Request) -> Response:
        history = self._service.history
        windows = history.windows(request.path_params["group"])
        if not self._knows(request) or not windows:
            return _missing(request, "cluster or consumer not found")
        topics: dict[str, list[dict[str, Any] | None]] = {}
        for partition, window in windows.items():
            listed = topics.setdefault(partition.topic, [])
            # The index in the list is the number of the partition.
            listed.extend([None] * (partition.partition - len(listed)))
            listed.append(window_json(window, history.rules.intervals))
        return _answer(request, "consumer detail returned", topics=topics)

    async def _status(self, request: Request) -> Response:
        return self._evaluated(request, all_partitions=False)

    async def _lag(self, request: Request) -> Response:
        return self._evaluated(request, all_partitions=True)

    def _evaluated(self, request: Request, *, all_partitions: bool) -> Response:
        group = request.path_params["group"]
        found = self._service.status(group)
        cluster = request.path_params["cluster"]
        if not self._knows(request) or found.status is Status.NOTFOUND:
            return _missing(request, "cluster or consumer not found")
        status = status_json(cluster, found, all_partitions=all_partitions)
        return _answer(request, "consumer status returned", status=status)

    async def _forget(self, request: Request) -> Response:
        if self._knows(request):
            self._service.history.forget(request.path_params["group"])
        return _answer(request, "consumer group removed")

    def _knows(self, request: Request) -> bool:
        return bool(request.path_params["cluster"] == self._service.cluster)


def _answer(request: Request, message: str, **content: Any) -> Response:
    return json_response(
        {"error": False, "message": message, **content, "request": _request(request)}
    )


def _missing(request: Request, message: str) -> Response:
    content = {"error": True, "message": message, "request": _request(request)}
    return json_response(content, status=404)


def _request(request: Request) -> dict[str, str]:
    return {"url": request.url.path, "host": request.headers.get("host", "")}
