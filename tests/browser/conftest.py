"""One browser, one cluster and one console for all tests of this folder.

With `ODRADEK_BROWSER_TESTS_ON=apache-kafka` the cluster is Apache Kafka
(`tests/browser/apache_kafka_cluster.py`).

Playwright keeps an event loop running in its thread, so tests here use no asyncio of their own, and
the browser ends with the folder.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from odradek.testing.cluster import Cluster
from odradek.testing.registry import Registry
from tests.browser.apache_kafka_cluster import LEFT_OUT, ON_APACHE_KAFKA, cluster_for_tests
from tests.browser.chromium import Visitor, browser_started, chromium
from tests.browser.console_process import Console, console_started
from tests.browser.data import fill
from tests.needs import need

WITHOUT_DATA = "tests/browser/test_console.py::test_every_page_without_data"


@pytest.hookimpl(tryfirst=True)  # xdist looks at the order in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look at the pages without data before any other test fills the cluster, in whichever file
    that is. On Apache Kafka, leave out what is not there."""
    items.sort(key=lambda item: not item.nodeid.endswith(WITHOUT_DATA))
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        if ON_APACHE_KAFKA and "tests/browser/" in item.nodeid and name in LEFT_OUT:
            item.add_marker(pytest.mark.skip(LEFT_OUT[name]))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with browser_started(need(chromium)) as started:
        yield started


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    # Broker 2 ends and comes back in a test, and one leaves a transaction that hangs.
    settings = {
        "offsets.topic.num.partitions": "2",
        "transaction.partition.verification.enable": "false",
    }
    with cluster_for_tests(brokers=2, settings=settings) as started:
        yield started


@pytest.fixture(scope="package")
def registry(cluster: Cluster) -> Iterator[Registry]:
    with Registry(cluster) as started:
        yield started


@pytest.fixture(scope="package")
def console(
    cluster: Cluster, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Console]:
    """A console of the cluster alone: without a registry and without Connect."""
    settings = {"bootstrap.servers": cluster.bootstrap}
    with console_started(tmp_path_factory.mktemp("console"), settings) as started:
        yield started


@pytest.fixture(scope="package")
def whole_console(
    cluster: Cluster,
    registry: Registry,
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Console]:
    """A console with a registry and masks, of a cluster with data, and of the same cluster again
    under another name, which is read-only."""
    fill(cluster, registry)
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "schema.registry.url": registry.url,
        "odradek.masks": "customers/value.**.email, customers/header.token, customers/key",
        "cluster.safe.bootstrap.servers": cluster.bootstrap,
        "cluster.safe.odradek.read.only": "true",
    }
    with console_started(tmp_path_factory.mktemp("whole"), settings) as started:
        yield started


@pytest.fixture
def visitor(browser: Browser, whole_console: Console) -> Iterator[Visitor]:
    """Somebody who visits the console with data; nothing may go wrong in the pages."""
    made = Visitor(browser, f"{whole_console.url}/c/kafka")
    yield made
    made.close()
    assert made.wrong == []
