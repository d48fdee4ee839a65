"""A real Prometheus scrapes three brokers, and finds a series for every expression we ship."""

from pathlib import Path

import pytest

from odradek.spark.pipelines import progress_lines
from tests.deploy.cluster_in_use import in_use
from tests.deploy.prometheus import (
    missing_expressions,
    prometheus_program,
    running_prometheus,
    scrape_job,
    textfile_collector,
)
from tests.deploy.series import alerts, dashboard_expressions, without_variables
from tests.needs import need
from tests.unit.broker.management.running import running_cluster


def _figures() -> str:
    """Returns the file of a pipeline's figures."""
    figures = dict.fromkeys(
        (
            "records_total",
            "batches_total",
            "restarts_total",
            "lag_records",
            "batch_duration_seconds",
            "last_batch_timestamp_seconds",
        ),
        1.0,
    )
    return progress_lines.prometheus("clicks", {"counts": figures})


@pytest.mark.timeout(400)
async def test_every_expression_finds_a_series(tmp_path: Path) -> None:
    need(prometheus_program)
    shipped = {
        expression
        for expressions in dashboard_expressions().values()
        for expression in map(without_variables, expressions)
    }
    async with running_cluster() as brokers:
        targets = [one.url.removeprefix("http://") for one in brokers]
        async with in_use(brokers[0].broker.bootstrap) as using:
            with textfile_collector(_figures) as pipeline:
                jobs = [scrape_job("odradek", targets), scrape_job("node", [pipeline])]
                async with running_prometheus(tmp_path, jobs) as prometheus:
                    missing = await missing_expressions(prometheus, shipped, using)
                    rules = await prometheus.ask("/api/v1/rules")
    assert missing == set()
    loaded = [rule for group in rules["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == set(alerts())
    assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}
