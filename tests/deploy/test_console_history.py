"""The charts of the console ask a real Prometheus that scrapes a real broker."""

import asyncio
from pathlib import Path

import pytest

from odradek.console.prometheus import Prometheus
from odradek.web.problems import Problem
from tests.deploy.cluster_in_use import in_use
from tests.deploy.prometheus import prometheus_program, running_prometheus, scrape_job
from tests.needs import need
from tests.unit.broker.management.running import running_cluster

DEADLINE_S = 60.0


@pytest.mark.timeout(200)
async def test_charts_of_the_cluster_a_topic_and_a_group(tmp_path: Path) -> None:
    need(prometheus_program)
    async with running_cluster() as brokers:
        targets = [one.url.removeprefix("http://") for one in brokers]
        jobs = [scrape_job("odradek", targets, {"env": "test"})]
        async with (
            in_use(brokers[0].broker.bootstrap),
            running_prometheus(tmp_path, jobs) as running,
        ):
            asked = Prometheus(running.url, 'env="test"')
            for series in (asked.of_cluster(), asked.of_topic("orders"), asked.of_group("workers")):
                async with asyncio.timeout(DEADLINE_S):
                    points: list[list[float | None]] = []
                    while not points or None in points[-1]:
                        points = await asked.points(series, 6)
                        await asyncio.sleep(0.5)
                assert len(points[-1]) == 1 + len(series)
                assert all(value is not None and value >= 0 for value in points[-1])
            # Nothing is known of what is not there, and no name is a part of the question.
            for topic in ("nothing", 'x"}) or vector(1) #', "back\\slash", "new\nline"):
                assert await asked.points(asked.of_topic(topic), 6) == []
            other = Prometheus(running.url, 'env="prod"')
            assert await other.points(other.of_topic("orders"), 24) == []
            wrong = Prometheus(running.url, "env=test")
            with pytest.raises(Problem, match="refused the question"):
                await wrong.points(wrong.of_topic("orders"), 24)
    with pytest.raises(Problem, match=r"prometheus\.url"):
        await asked.points(asked.of_topic("orders"), 6)
