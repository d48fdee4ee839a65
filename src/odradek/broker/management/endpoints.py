"""Which path of the management port is answered by what.

What collects and renders metrics is imported when they are first asked for, so that a broker is
ready as soon as without them.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from odradek.broker.management.health import Health, State
from odradek.broker.management.http_server import (
    HttpRequest,
    HttpResponse,
    json_response,
    text_response,
)
from odradek.world import Clock

if TYPE_CHECKING:
    from odradek.broker.management.rates import Rates
    from odradek.broker.management.scrape import Scraper
    from odradek.broker.management.sources import Sources

_INDEX: Final = """\
odradek's management port serves:

/metrics          for Prometheus: all metrics
/healthz          200 while the broker is alive
/readyz           200 when it is ready; otherwise 503 and why
/status           what the broker is doing, as JSON
/jolokia/list     the same metrics as MBeans; /jolokia/read/NAME, /jolokia/search/PATTERN
"""
_JOLOKIA: Final = "/jolokia"


class Endpoints:
    """`attach` is called when the broker is about to accept clients; there are no metrics
    before."""

    def __init__(self, health: Health, clock: Clock) -> None:
        self._health = health
        self._clock = clock
        self._sources: Sources | None = None
        self._rates: Rates | None = None
        self._scraper: Scraper | None = None

    def attach(self, sources: "Sources", rates: "Rates") -> None:
        self._sources, self._rates = sources, rates

    def scraper(self) -> "Scraper | None":
        """Returns what collects metrics; None while there are none."""
        if self._sources is None or self._health.state is State.STOPPING:
            return None
        if self._scraper is None:
            from odradek.broker.management.scrape import Scraper  # noqa: PLC0415 - when asked for

            self._scraper = Scraper(self._sources)
        return self._scraper

    async def answer(self, request: HttpRequest) -> HttpResponse:
        path = request.path.rstrip("/") or "/"
        if path == "/metrics":
            return await self._metrics(request.accept)
        if path == _JOLOKIA or path.startswith(f"{_JOLOKIA}/"):
            return await self._jolokia(request.path)
        return self._small_page(path)

    def _small_page(self, path: str) -> HttpResponse:
        match path:
            case "/":
                return text_response(_INDEX)
            case "/healthz":
                return json_response({"status": "alive", "state": self._state})
            case "/readyz":
                reasons = self._health.reasons()
                status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
                return json_response({"ready": not reasons, "reasons": reasons}, status)
            case "/status":
                return json_response(self._health.status())
        return text_response(f"there is nothing at {path}\n\n{_INDEX}", HTTPStatus.NOT_FOUND)

    @property
    def _state(self) -> str:
        return self._health.state.name.lower()

    def _not_yet(self) -> HttpResponse:
        return text_response(
            f"no metrics yet: {self._health.reasons()[0]}\n", HTTPStatus.SERVICE_UNAVAILABLE
        )

    async def _metrics(self, accept: str) -> HttpResponse:
        scraper = self.scraper()
        if scraper is None:
            return self._not_yet()
        from odradek.telemetry.exposition import content_type  # noqa: PLC0415 - when asked for

        format_ = content_type(accept)
        return HttpResponse(HTTPStatus.OK, format_, await scraper.text(format_))

    async def _jolokia(self, path: str) -> HttpResponse:
        scraper, rates = self.scraper(), self._rates
        if scraper is None or rates is None:
            return self._not_yet()
        from odradek.broker.management.jolokia import MBeans, answer  # noqa: PLC0415 - when asked for

        beans = MBeans(await scraper.collect(), rates)
        found = answer(path.removeprefix(_JOLOKIA), beans, self._clock.now_ms() // 1000)
        return json_response(found)
