"""A real Prometheus scrapes three brokers, and finds a series for every expression we ship."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.spark.pipelines import progress_lines
from tests.deploy.cluster_in_use import in_use
from tests.deploy.prometheus import (
    missing_expressions,
    prometheus_program,
    running_prometheus,
    scrape_job,
)
from tests.deploy.series import alerts, dashboard_expressions, without_variables
from tests.needs import need
from tests.unit.broker.management.running import running_cluster


@contextmanager
def _pipeline() -> Iterator[str]:
    """Serves the file of a pipeline's figures, as a textfile collector does."""
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
    text = progress_lines.prometheus("clicks", {"counts": figures})

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
            with _pipeline() as pipeline:
                jobs = [scrape_job("odradek", targets), scrape_job("node", [pipeline])]
                async with running_prometheus(tmp_path, jobs) as prometheus:
                    missing = await missing_expressions(prometheus, shipped, using)
                    rules = await prometheus.ask("/api/v1/rules")
    assert missing == set()
    loaded = [rule for group in rules["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == set(alerts())
    assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}
