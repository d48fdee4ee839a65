"""A console as a process of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.service_process import service_started


@dataclass
class Console:
    url: str
    log: Path


@contextmanager
def console_started(directory: Path, settings: Mapping[str, str]) -> Iterator[Console]:
    """Starts a console with a properties file, on a free port."""
    file, log = directory / "console.properties", directory / "console.log"
    given = {"odradek.refresh.ms": "500", **settings}
    with service_started("console", file, given, log) as url:
        yield Console(url, log)
