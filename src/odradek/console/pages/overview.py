"""The overview of a cluster, and the stream that keeps pages live.

The stream has one event for each new sample, `figures`, and `records` for live tails (`tailing`). A
browser has one stream for all of its tabs: static/live.js shares it among them.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from starlette.responses import Response

from odradek.console.asking import PageRequest, Pages
from odradek.console.pages.history import shown_hours
from odradek.console.pages.tailing import Tail, tails_of
from odradek.console.prometheus import RANGES
from odradek.console.rendering import decimal, duration, number, rate, size
from odradek.console.watching import Watcher
from odradek.ops.top.figures import BrokerFigures, ClusterFigures, total
from odradek.services.client_pool import RECHECK_S
from odradek.services.running import unreachable
from odradek.web.endpoints import Endpoint
from odradek.web.media import EVENTS, JSON
from odradek.web.problems import json_response
from odradek.web.streaming import EventStream, event

_SHOWN_EVENTS: Final = 30
_TOP: Final = 8


class OverviewPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("", self._overview, "How the cluster is.", needs_brokers=False),
            self.shows("/points", self._points, "The last hour, for charts.", produces=(JSON,)),
            self.shows(
                "/live", self._live, "New figures and records.", produces=(EVENTS,), is_stream=True
            ),
        ]

    async def _overview(self, asked: PageRequest) -> Response:
        watcher = asked.watcher
        # A cluster that is away is named at once, and not after the first sample has given up.
        is_unsure = asked.cluster.watchers.is_unsure(asked.log_in.caller)
        away = await unreachable(asked.cluster.servers) if is_unsure else None
        figures = watcher.figures if away else await watcher.first()
        busiest: list[Any] = []
        lagging: list[Any] = []
        if figures is not None:
            busiest = sorted(
                (topic for topic in figures.topics if topic.messages_in or topic.bytes_in),
                key=lambda topic: -(topic.bytes_in or topic.messages_in or 0),
            )[:_TOP]
            lagging = sorted(
                (group for group in figures.groups if group.lag), key=lambda group: -group.lag
            )[:_TOP]
        return asked.page(
            "overview.html", "overview", figures=figures, tiles=tiles(figures),
            brokers=[broker_row(broker) for broker in figures.brokers] if figures else [],
            events=figures.events[:_SHOWN_EVENTS] if figures else (),
            problem=away or watcher.problem, busiest=busiest, lagging=lagging,
            ranges=RANGES, hours=shown_hours(asked),
        )  # fmt: skip

    async def _points(self, asked: PageRequest) -> Response:
        return json_response([point.to_json() for point in asked.watcher.points])

    async def _live(self, asked: PageRequest) -> Response:
        tails = await tails_of(asked)
        return EventStream(_events(asked, asked.watcher, tails))


async def _events(asked: PageRequest, watcher: Watcher, tails: list[Tail]) -> AsyncGenerator[bytes]:
    """Yields events until the browser goes, or the brokers no longer accept the log-in."""
    queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=100)

    async def watch() -> None:
        async for figures in watcher.changes():
            await queue.put(event(msgspec.json.encode(_json(figures, watcher)), name="figures"))

    tasks = [asyncio.create_task(watch())]
    tasks += [asyncio.create_task(tail.run(queue)) for tail in tails]
    loop = asyncio.get_running_loop()
    check_at_s = loop.time() + RECHECK_S
    try:
        while True:
            try:
                async with asyncio.timeout(1.0):
                    yield await queue.get()
            except TimeoutError:
                pass
            if loop.time() >= check_at_s:
                check_at_s = loop.time() + RECHECK_S
                if not await asked.cluster.pool.is_let_in(asked.log_in.caller):
                    return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _json(figures: ClusterFigures | None, watcher: Watcher) -> dict[str, Any]:
    """Returns what pages show of new figures, as text and with the newest place of the charts."""
    if figures is None:
        return {"problem": watcher.problem}
    return {
        "problem": "",
        "tiles": {tile["name"]: [tile["value"], tile["state"]] for tile in tiles(figures)},
        "brokers": {str(broker.id): broker_row(broker)["cells"] for broker in figures.brokers},
        "point": watcher.points[-1].to_json() if watcher.points else None,
        "events": [[one.at_ms, one.severity, one.text] for one in figures.events[:_SHOWN_EVENTS]],
        "lag": {
            group.name: [group.lag, duration(group.lag_seconds)] for group in figures.groups[:200]
        },
    }


def tiles(figures: ClusterFigures | None) -> list[dict[str, str]]:
    """Returns the figures at the top: name, label, value, and whether it is good."""
    if figures is None:
        return []
    running = sum(broker.state == "running" for broker in figures.brokers)
    brokers = len(figures.brokers)
    lag = sum(group.lag for group in figures.groups)
    free = total([broker.disk_free_bytes for broker in figures.brokers])
    written = total([broker.log_bytes for broker in figures.brokers])
    under, offline = figures.under_replicated, figures.offline
    controller = next(
        (str(broker.id) for broker in figures.brokers if broker.is_controller), "none"
    )
    return [
        _tile("brokers", "Brokers running", f"{running} of {brokers}", running == brokers),
        _tile("controller", "Controller", controller, controller != "none"),
        _tile("topics", "Topics", number(len(figures.topics))),
        _tile("partitions", "Partitions", number(len(figures.partitions))),
        _tile("under", "Under-replicated", number(under), under == 0),
        _tile("offline", "Offline partitions", number(offline), offline == 0),
        _tile(
            "messages",
            "Records in",
            rate(total([broker.messages_in for broker in figures.brokers])),
        ),
        _tile(
            "bytes", "Bytes in", _per_second(total([broker.bytes_in for broker in figures.brokers]))
        ),
        _tile(
            "out", "Bytes out", _per_second(total([broker.bytes_out for broker in figures.brokers]))
        ),
        _tile("lag", "Lag of all groups", number(lag)),
        _tile("disk", "Data on disk", size(written)),
        _tile("free", "Disk free", size(free)),
    ]


def _tile(name: str, label: str, value: str, is_good: bool | None = None) -> dict[str, str]:
    state = "" if is_good is None else ("good" if is_good else "bad")
    return {"name": name, "label": label, "value": value, "state": state}


def broker_row(broker: BrokerFigures) -> dict[str, Any]:
    """Returns a broker as tables show it; `cells` are those that change."""
    used = None
    if broker.disk_total_bytes and broker.disk_free_bytes is not None:
        used = 100 * (1 - broker.disk_free_bytes / broker.disk_total_bytes)
    return {
        "id": broker.id,
        "address": broker.address,
        "rack": broker.rack,
        "is_controller": broker.is_controller,
        "state": broker.state,
        "used": used,
        "cells": {
            "state": broker.state,
            "leaders": number(broker.leaders),
            "replicas": number(broker.replicas),
            "under": number(broker.under_replicated),
            "in": _per_second(broker.bytes_in),
            "out": _per_second(broker.bytes_out),
            "records": rate(broker.messages_in),
            "cpu": "–" if broker.cpu is None else f"{broker.cpu:.0%}",
            "memory": size(broker.memory_bytes),
            "log": size(broker.log_bytes),
            "disk": "–"
            if used is None
            else f"{decimal(used, 0)} % of {size(broker.disk_total_bytes)}",
        },
    }


def _per_second(value: float | None) -> str:
    return "–" if value is None else f"{size(value)}/s"
