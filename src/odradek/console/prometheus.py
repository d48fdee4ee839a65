"""The history of a cluster, from a Prometheus that scrapes its brokers (`prometheus.url`).

The names are those of Odradek's brokers, which are those of Kafka's JMX exporter in lower case;
lags have the names of kafka_exporter. Names of topics and groups are quoted before they become
parts of a query.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.console.http_json import HttpRefused, ask_json
from odradek.web.problems import Problem
from odradek.world.clock import Clock, SystemClock

RANGES: Final = {6: "6 hours", 24: "1 day", 168: "7 days", 720: "30 days"}
"""What charts can show, in hours, beside the last hour that the console knows itself."""
_POINTS: Final = 240
_SHORTEST_STEP_S: Final = 15
_LOOKBACK_S: Final = 120
_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_COUNTERS: Final = (
    f"{_TOPICS}bytesin_total",
    f"{_TOPICS}bytesout_total",
    f"{_TOPICS}messagesin_total",
)
_LAG: Final = "kafka_consumergroup_lag"


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: a query without its range. `window` is put in for that of rates."""

    query: str

    def at(self, window_s: int) -> str:
        return self.query.replace("$window", f"{window_s}s")


class Prometheus:
    """`labels` are matchers that choose the cluster, as in `job="kafka",env="prod"`."""

    def __init__(self, url: str, labels: str = "", clock: Clock | None = None) -> None:
        self._url = url.rstrip("/")
        self._labels = [one.strip() for one in labels.split(",") if one.strip()]
        self._clock = clock or SystemClock()

    def of_cluster(self) -> list[Series]:
        """Returns bytes in, bytes out, records in and the lag of all groups."""
        rates = [self._rate(name, 'topic=""') for name in _COUNTERS]
        return [*rates, Series(f"sum({_LAG}{self._chosen()})")]

    def of_topic(self, topic: str) -> list[Series]:
        """Returns bytes in, bytes out and records in."""
        return [self._rate(name, f"topic={_quoted(topic)}") for name in _COUNTERS]

    def of_group(self, group: str) -> list[Series]:
        """Returns the lag."""
        return [Series(f"sum({_LAG}{self._chosen(f'consumergroup={_quoted(group)}')})")]

    async def points(self, series: Sequence[Series], hours: int) -> list[list[float | None]]:
        """Returns the points of a chart: a time, and a value of each series. Raises a `Problem`
        if Prometheus does not answer."""
        end_s = self._clock.now_ms() // 1000
        step_s = max(_SHORTEST_STEP_S, hours * 3600 // _POINTS)
        begin_s = end_s - hours * 3600
        window_s = max(step_s, _LOOKBACK_S)
        lines = await asyncio.gather(
            *(self._line(one.at(window_s), begin_s, end_s, step_s) for one in series)
        )
        times = sorted({at for line in lines for at in line})
        return [[at, *(line.get(at) for line in lines)] for at in times]

    async def _line(
        self, query: str, begin_s: int, end_s: int, step_s: int
    ) -> dict[float, float | None]:
        form = {"query": query, "start": str(begin_s), "end": str(end_s), "step": str(step_s)}
        try:
            answer = await ask_json("POST", f"{self._url}/api/v1/query_range", form=form)
        except HttpRefused as error:
            raise Problem(502, f"Prometheus at {self._url} refused the question: {error}") from None
        except OSError as error:
            raise Problem(
                503,
                f"Prometheus at {self._url} does not answer ({error}); start it, or correct"
                " prometheus.url of the console",
            ) from None
        return _values(answer)

    def _rate(self, name: str, matcher: str) -> Series:
        return Series(f"sum(rate({name}{self._chosen(matcher)}[$window]))")

    def _chosen(self, *matchers: str) -> str:
        return f"{{{','.join([*self._labels, *matchers])}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _values(answer: Any) -> dict[float, float | None]:
    """Returns the values of the one series that a sum is; NaN is not known."""
    try:
        found = answer["data"]["result"]
        pairs = found[0]["values"] if found else []
        values = {float(at): float(text) for at, text in pairs}
    except (LookupError, TypeError, ValueError):
        raise Problem(502, "Prometheus answered with something else than a range") from None
    return {at: None if value != value else value for at, value in values.items()}  # noqa: PLR0124
