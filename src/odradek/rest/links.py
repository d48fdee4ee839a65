"""Makes the absolute URLs and the resource names (CRN) in responses of the REST proxy.

A URL begins with the host of the request, unless the properties file has another one (`host.name`,
`advertised.listeners`). `web.guards` has checked that host, so no response names a foreign one.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from odradek.services.settings import ServiceSettings

Json = dict[str, Any]


def base_url(request: Request, settings: ServiceSettings) -> str:
    """Returns the URL of the service without a slash at the end."""
    if settings.advertised_listeners:
        return settings.advertised_listeners.rstrip("/")
    if settings.host_name:
        port = urlsplit(settings.url).port
        return f"{request.url.scheme}://{settings.host_name}:{port}"
    return f"{request.url.scheme}://{request.headers['host']}"


def joined(*segments: object) -> str:
    """Joins segments to the path of a URL. A slash within a segment is percent-encoded."""
    return "/".join(quote(str(segment), safe=":@") for segment in segments)


@dataclass(frozen=True, slots=True)
class Links:
    """Makes the metadata and links of version 3 for one request."""

    base: str
    cluster_id: str

    def url(self, *segments: object) -> str:
        """Returns the URL of something in the cluster."""
        return f"{self.base}/v3/clusters/{joined(self.cluster_id, *segments)}"

    def related(self, *segments: object) -> Json:
        return {"related": self.url(*segments)}

    def resource(
        self, kind: str, segments: tuple[object, ...], names: Json, **content: Any
    ) -> Json:
        """Returns the JSON of a resource. `segments` are its path below the cluster, `names` the
        parts of its resource name, where None stands for a part without a value, and `content` its
        other members."""
        crn = "".join(
            f"/{name}" if value is None else f"/{name}={quote(str(value), safe='')}"
            for name, value in names.items()
        )
        return {
            "kind": f"Kafka{kind}",
            "metadata": {
                "self": self.url(*segments) if segments else self.url_of_cluster(),
                "resource_name": f"crn:///kafka={quote(self.cluster_id, safe='')}{crn}",
            },
            "cluster_id": self.cluster_id,
            **content,
        }

    def url_of_cluster(self) -> str:
        return f"{self.base}/v3/clusters/{joined(self.cluster_id)}"

    def collection(self, kind: str, segments: tuple[object, ...], data: list[Json]) -> Json:
        """Returns the JSON of a list of resources. `segments` are its path below the cluster."""
        return {
            "kind": f"Kafka{kind}List",
            "metadata": {"self": self.url(*segments), "next": None},
            "data": data,
        }
