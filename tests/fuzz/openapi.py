"""Asks the endpoints of the HTTP services what their OpenAPI documents allow, and what they forbid.

    python -m tests.fuzz.openapi [--seconds 120] [--seed 1] [--service NAME]

It starts a broker and the services, and runs schemathesis on the document of each. A service fails
if it answers with a server error, with a status, a media type or a body that its document does not
name. `--seconds` is the time for random requests to each service; 0 leaves them out, and plays only
the edges of every parameter. The short form in CI does that.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.broker_process import odradek_broker
from tests.scenarios import connect_process
from tests.scenarios.registry_process import running
from tests.scenarios.rest_server import rest_started
from tests.scenarios.sql_server import sql_started

_CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
_EXTRA_S: Final = 240.0


@contextmanager
def _registry(directory: Path, bootstrap: str) -> Iterator[str]:
    with running(directory, bootstrap) as registry:
        yield f"http://127.0.0.1:{registry.port}"


@contextmanager
def _rest(directory: Path, bootstrap: str) -> Iterator[str]:
    directory.mkdir()
    with rest_started(directory, {"bootstrap.servers": bootstrap}) as rest:
        yield rest.url


@contextmanager
def _connect(directory: Path, bootstrap: str) -> Iterator[str]:
    with connect_process.running(directory, "standalone", bootstrap) as worker:
        yield f"http://127.0.0.1:{worker.port}"


@contextmanager
def _sql(directory: Path, bootstrap: str) -> Iterator[str]:
    directory.mkdir()
    with sql_started(directory, bootstrap) as server:
        yield f"http://127.0.0.1:{server.port}"


SERVICES: Final[dict[str, Callable[[Path, str], AbstractContextManager[str]]]] = {
    "registry": _registry,
    "rest": _rest,
    "connect": _connect,
    "sql": _sql,
}


def play(url: str, *, seconds: int, seed: int, directory: Path) -> tuple[bool, str]:
    """Returns whether a service kept its document, and what schemathesis says of it."""
    phases = "coverage,fuzzing" if seconds else "coverage"
    time = ["--max-time", str(seconds)] if seconds else []
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json",
            "--checks", ",".join(_CHECKS), "--phases", phases, *time,
            "--continue-on-failure", "--seed", str(seed), "--warnings", "off", "--no-color",
        ],
        cwd=directory, capture_output=True, text=True, check=False, timeout=seconds + _EXTRA_S,
    )  # fmt: skip
    return done.returncode == 0, done.stdout + done.stderr


@contextmanager
def started(service: str, directory: Path) -> Iterator[str]:
    """Starts a broker and a service, and returns the address of the service."""
    (directory / "broker").mkdir(parents=True)
    with (
        odradek_broker(directory / "broker") as broker,
        SERVICES[service](directory / service, f"127.0.0.1:{broker.port}") as url,
    ):
        yield url


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.openapi", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="for random requests to each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--service", choices=sorted(SERVICES), help="only this one")
    arguments = parser.parse_args()
    failed = []
    for service in [arguments.service] if arguments.service else SERVICES:
        with tempfile.TemporaryDirectory() as found:
            directory = Path(found)
            with started(service, directory / service) as url:
                kept, said = play(
                    url, seconds=arguments.seconds, seed=arguments.seed, directory=directory
                )
        print(f"== {service}: {'passed' if kept else 'failed'}")
        print(said if not kept else said[said.rfind("Test cases:") :])
        failed += [] if kept else [service]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
