"""The pytest plugin. pytest loads it in every run, so it imports Odradek only if a fixture is used.

`odradek_cluster` is a real cluster for the whole run; under pytest-xdist each worker has one. It
has a single broker, unless `--odradek-brokers`, or `odradek_brokers` in pytest's configuration
file, says how many. `odradek_topic` is a new topic for each test. `odradek_registry` is a schema
registry on that cluster.
"""

# ruff: noqa: PLC0415 - see above
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster
    from odradek.testing.registry import Registry

_MAX_PREFIX_LENGTH = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how many brokers the fixture odradek_cluster starts"
    group = parser.getgroup("odradek")
    group.addoption("--odradek-brokers", type=int, metavar="N", help=f"{text} (default: 1)")
    parser.addini("odradek_brokers", text, default="1")


@pytest.fixture(scope="session")
def odradek_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A cluster on free ports, in memory; `odradek_cluster.bootstrap` is its address."""
    from odradek.testing.cluster import Cluster

    brokers = pytestconfig.getoption("odradek_brokers") or int(
        pytestconfig.getini("odradek_brokers")
    )
    with Cluster(brokers=brokers) as cluster:
        yield cluster


@pytest.fixture
def odradek_topic(odradek_cluster: "Cluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic with one partition that no other test uses."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_MAX_PREFIX_LENGTH]
    return odradek_cluster.create_topic(prefix=readable)


@pytest.fixture(scope="session")
def odradek_registry(odradek_cluster: "Cluster") -> "Iterator[Registry]":
    """A schema registry; `odradek_registry.url` is its address."""
    from odradek.testing.registry import Registry

    with Registry(odradek_cluster) as registry:
        yield registry
