"""The pytest plugin: loaded in every run, so it imports nothing until a fixture is used.

`odradek_cluster` is one real broker for the whole run (one a worker under pytest-xdist);
`odradek_topic` is a topic of its own for each test.
"""

# ruff: noqa: PLC0415 - see above
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster

_LONGEST_PREFIX = 200


@pytest.fixture(scope="session")
def odradek_cluster() -> "Iterator[Cluster]":
    """A broker on a free port, in memory; `odradek_cluster.bootstrap` is its address."""
    from odradek.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def odradek_topic(odradek_cluster: "Cluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic with one partition that no other test uses."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_LONGEST_PREFIX]
    return odradek_cluster.create_topic(prefix=readable)
