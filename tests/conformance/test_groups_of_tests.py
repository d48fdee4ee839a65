"""What shares a broker runs in one worker: else each worker would start brokers of its own."""

import os

import pytest


def test_workers_keep_groups_together(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@odradek"), "pytest and pytest-xdist do not fit"
