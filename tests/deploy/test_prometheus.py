"""A real Prometheus scrapes three brokers, and finds a series for every expression we ship."""

import asyncio
import contextlib
import http.server
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.broker_process import ToolMissing
from odradek.client import Consumer, Producer
from odradek.spark.pipelines import progress_lines
from tests.deploy.files import DEPLOY, program
from tests.deploy.series import alerts, dashboard_expressions, without_variables
from tests.needs import need
from tests.unit.broker.management.running import running_cluster

_DEADLINE_S = 120


@pytest.fixture
def prometheus_program() -> str:
    return need(_prometheus)


def _prometheus() -> str:
    path = program("prometheus")
    if path is None:
        raise ToolMissing("prometheus is missing (Debian: apt-get install prometheus)")
    return path


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


@asynccontextmanager
async def _scraping(
    path: str, directory: Path, targets: dict[str, list[str]]
) -> AsyncIterator[str]:
    """Runs Prometheus; yields its address."""
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(DEPLOY / "prometheus" / "*.yml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": addresses}]}
            for job, addresses in targets.items()
        ],
    }
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings))
    process = await asyncio.create_subprocess_exec(
        path,
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    log = b""
    try:
        while b"Server is ready" not in log:
            line = await asyncio.wait_for(process.stderr.readline(), _DEADLINE_S)
            assert line, log.decode()
            log += line
        listening = next(line for line in log.splitlines() if b"Listening on" in line)
        address = listening.rpartition(b"address=")[2].split()[0].decode()
        reading = asyncio.create_task(process.stderr.read())
        yield f"http://{address}"
        process.terminate()
        await reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _ask(url: str, path: str, **parameters: str) -> Any:
    asked = f"{url}{path}?{urllib.parse.urlencode(parameters)}"

    def read() -> Any:
        with urllib.request.urlopen(asked, timeout=_DEADLINE_S) as response:
            return json.loads(response.read())

    return (await asyncio.to_thread(read))["data"]


async def _use(bootstrap: str) -> None:
    """Writes, reads and commits, until cancelled."""
    async with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="workers",
            auto_offset_reset="earliest",
            max_poll_records=1,
        ) as consumer,
    ):
        while True:
            for _ in range(20):
                await producer.send_and_wait("orders", b"a book")
            await consumer.poll(timeout_ms=1000)
            await consumer.commit()


@pytest.mark.timeout(400)
async def test_every_expression_finds_a_series(prometheus_program: str, tmp_path: Path) -> None:
    shipped = {
        expression
        for expressions in dashboard_expressions().values()
        for expression in map(without_variables, expressions)
    }
    async with running_cluster() as brokers:
        using = asyncio.create_task(_use(brokers[0].broker.bootstrap))
        targets = [one.url.removeprefix("http://") for one in brokers]
        try:
            with _pipeline() as pipeline:
                jobs = {"odradek": targets, "node": [pipeline]}
                async with _scraping(prometheus_program, tmp_path, jobs) as url:
                    missing = await _missing(url, shipped, using)
                    rules = await _ask(url, "/api/v1/rules")
        finally:
            using.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await using
    assert missing == set()
    loaded = [rule for group in rules["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == set(alerts())
    assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}


async def _missing(url: str, expressions: set[str], using: asyncio.Task[None]) -> set[str]:
    """Returns the expressions that find no series until the deadline."""
    missing = set(expressions)
    deadline = asyncio.get_running_loop().time() + _DEADLINE_S
    while missing and asyncio.get_running_loop().time() < deadline:
        for expression in sorted(missing):
            found = await _ask(url, "/api/v1/query", query=expression)
            if found["result"]:
                missing.discard(expression)
        if using.done():
            await using
        await asyncio.wait([using], timeout=0.5)
    return missing
