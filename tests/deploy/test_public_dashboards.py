"""Dashboards that others have made for Kafka find their series in a cluster of Odradek."""

from pathlib import Path

import pytest

from tests.deploy.cluster_in_use import in_use
from tests.deploy.prometheus import (
    missing_expressions,
    prometheus_program,
    running_prometheus,
    scrape_job,
)
from tests.deploy.public_dashboards import DASHBOARDS, LEFT_OUT, POD, POD_NAME
from tests.deploy.series import served
from tests.needs import need
from tests.unit.broker.management.running import running_cluster

# docs/monitoring.md says how to scrape for dashboards in which one instance is a whole cluster.
_ONE_INSTANCE = {
    "relabel_configs": [{"target_label": "instance", "replacement": "orders"}],
    "metric_relabel_configs": [
        {
            "source_labels": ["__name__"],
            "regex": "kafka_(brokers|broker_info|topic_.*|consumergroup_.*)",
            "action": "keep",
        }
    ],
}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_series_is_declared(name: str) -> None:
    known = served()
    of_scrape = {*POD, POD_NAME}
    _, shown = DASHBOARDS[name]
    for one in shown:
        assert one.series in known
        assert {*one.of, *one.by} - of_scrape <= known[one.series]
        assert one.series not in LEFT_OUT


@pytest.mark.timeout(400)
async def test_every_expression_finds_a_series(tmp_path: Path) -> None:
    need(prometheus_program)
    expressions = {
        one.expression(from_scrape) for from_scrape, shown in DASHBOARDS.values() for one in shown
    }
    async with running_cluster() as brokers:
        targets = [one.url.removeprefix("http://") for one in brokers]
        pods = [
            scrape_job(f"pods-{number}", [target], {**POD, POD_NAME: f"orders-kafka-{number}"})
            for number, target in enumerate(targets)
        ]
        exporter = scrape_job("kafka-exporter", targets, settings=_ONE_INSTANCE)
        async with (
            in_use(brokers[0].broker.bootstrap) as using,
            running_prometheus(tmp_path, [*pods, exporter]) as prometheus,
        ):
            missing = await missing_expressions(prometheus, expressions, using)
            # One instance is the whole cluster, and nothing is counted twice.
            partitions = await prometheus.query(
                'count by (instance) (kafka_topic_partition_leader{job="kafka-exporter"})'
            )
            declared = await prometheus.query(
                'sum by (instance) (kafka_topic_partitions{job="kafka-exporter"})'
            )
    assert missing == set()
    assert [one["metric"] for one in partitions] == [{"instance": "orders"}]
    assert partitions[0]["value"][1] == declared[0]["value"][1]
