"""A real Prometheus for tests: it scrapes brokers, answers queries, and says which alerts fire."""

import asyncio
import contextlib
import http.server
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.broker_process import ToolMissing
from tests.deploy.files import DEPLOY, program

DEADLINE_S: Final = 120.0
SHIPPED_RULES: Final = DEPLOY / "prometheus" / "*.yml"


def prometheus_program() -> str:
    """Returns the path of the program; raises `ToolMissing` if it is not installed."""
    path = program("prometheus")
    if path is None:
        raise ToolMissing("prometheus is missing (Debian: apt-get install prometheus)")
    return path


def scrape_job(
    name: str,
    targets: Sequence[str],
    labels: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Returns an entry of `scrape_configs`. `labels` are added to all series of the targets."""
    static = {"targets": list(targets), "labels": dict(labels or {})}
    return {"job_name": name, "static_configs": [static], **(settings or {})}


@contextmanager
def textfile_collector(read: Callable[[], str]) -> Iterator[str]:
    """Serves the file of a pipeline's figures, as node_exporter does; yields where."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(read().encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Prometheus:
    """Where a Prometheus answers, and what it is asked."""

    def __init__(self, url: str, file: Path, settings: dict[str, Any]) -> None:
        self.url = url
        self._file = file
        self._settings = settings

    async def ask(self, path: str, **parameters: str) -> Any:
        """Returns the data of an answer of the HTTP API."""
        asked = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"

        def read() -> Any:
            with urllib.request.urlopen(asked, timeout=DEADLINE_S) as response:
                return json.loads(response.read())

        return (await asyncio.to_thread(read))["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Returns the series that an expression finds now."""
        found: list[dict[str, Any]] = (await self.ask("/api/v1/query", query=expression))["result"]
        return found

    async def firing(self) -> set[str]:
        """Returns the names of the alerts that fire now."""
        alerts = (await self.ask("/api/v1/alerts"))["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    async def scrape(self, jobs: Sequence[Mapping[str, object]]) -> None:
        """Scrapes these jobs from now on instead of those before."""
        self._settings["scrape_configs"] = [dict(job) for job in jobs]
        self._file.write_text(yaml.safe_dump(self._settings))
        request = urllib.request.Request(f"{self.url}/-/reload", method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=DEADLINE_S).close())


@asynccontextmanager
async def running_prometheus(
    directory: Path,
    jobs: Sequence[Mapping[str, object]],
    *,
    rules: Path = SHIPPED_RULES,
    interval: str = "1s",
    flags: Sequence[str] = (),
) -> AsyncIterator[Prometheus]:
    """Runs Prometheus with its data in the directory, until the end of the block."""
    settings = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(rules)],
        "scrape_configs": [dict(job) for job in jobs],
    }
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings))
    process = await asyncio.create_subprocess_exec(
        prometheus_program(),
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--web.enable-lifecycle",
        *flags,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    log = b""
    try:
        while b"Server is ready" not in log:
            line = await asyncio.wait_for(process.stderr.readline(), DEADLINE_S)
            assert line, log.decode()
            log += line
        listening = next(line for line in log.splitlines() if b"Listening on" in line)
        address = listening.rpartition(b"address=")[2].split()[0].decode()
        reading = asyncio.create_task(process.stderr.read())
        yield Prometheus(f"http://{address}", file, settings)
        process.terminate()
        await reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def missing_expressions(
    prometheus: Prometheus, expressions: set[str], using: asyncio.Task[None]
) -> set[str]:
    """Returns the expressions that find no series until the deadline. Raises what ended `using`,
    the task that uses the cluster meanwhile."""
    missing = set(expressions)
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while missing and asyncio.get_running_loop().time() < deadline:
        for expression in sorted(missing):
            if await prometheus.query(expression):
                missing.discard(expression)
        if using.done():
            await using
        await asyncio.wait([using], timeout=0.5)
    return missing
