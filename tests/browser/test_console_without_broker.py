"""The console while a broker is down: after other tests of pages, for it changes the cluster."""

import pytest
from playwright.sync_api import expect

from odradek.testing.cluster import Cluster
from tests.browser.apache_kafka_cluster import ON_APACHE_KAFKA
from tests.browser.chromium import Visitor

pytestmark = pytest.mark.xdist_group("browser")


def test_every_page_with_a_broker_down(visitor: Visitor, cluster: Cluster) -> None:
    page = visitor.go("")
    cluster.kill(2)
    tile = page.locator('[data-tile="brokers"] dd')
    expect(tile).to_contain_text("1 of 2", timeout=30_000)
    expect(page.locator("#events")).to_contain_text("broker 2 is gone", timeout=30_000)
    for path, words in {
        "": "Under-replicated",
        "/brokers": "gone",
        "/brokers/2": "Start it again",
        "/brokers/2/settings": "Start it again",
        "/topics": "offline",
        "/topics/lonely": "offline",
        "/topics/lonely/messages": "Without a leader",
        "/topics/orders/messages": "order-",
        "/groups": "billing",
        "/quotas": "Quotas",
        "/brokers/settings?q=log.retention": "log.retention.ms",
        "/balance": "Make a plan",
        "/balance/moves": "Nothing moves",
        "/balance/leaders": "not in sync",
        "/transactions": "No transaction is open",
        "/hanging-transactions?topic=orders": "No transaction hangs",
        "/audit": "There is no audit log"
        if ON_APACHE_KAFKA
        else "The audit log is not switched on",
    }.items():
        visitor.go(path)
        expect(page.locator("main")).to_contain_text(words)
    cluster.restart(2)
    visitor.go("")
    expect(tile).to_contain_text("2 of 2", timeout=30_000)
