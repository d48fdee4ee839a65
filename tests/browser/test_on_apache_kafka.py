"""The console of Apache Kafka: what exists there works, and what does not is said."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from benchmarks.apache_kafka import ApacheKafka
from odradek.client.sync import Admin, Consumer, NewTopic, Producer
from tests.browser.chromium import Visitor
from tests.browser.console_process import console_started
from tests.needs import need

pytestmark = pytest.mark.xdist_group("browser")

PAGES = {
    "": "Brokers running",
    "/brokers": "running",
    "/brokers/1": "Replica",
    "/brokers/1/settings": "log.retention",
    "/topics": "orders",
    "/topics/orders": "First offset",
    "/topics/orders/messages": "order-",
    "/topics/orders/messages/0/0": "Read it elsewhere",
    "/topics/orders/consumers": "billing",
    "/topics/orders/producers": "Producer id",
    "/topics/orders/settings": "retention.ms",
    "/topics/orders/redrive?start=oldest": "it does not say where it is from",
    "/topics/orders/manage": "Add partitions",
    "/groups": "billing",
    "/groups/billing": "Lag in records",
    "/groups/billing/reset?to=earliest&topic=orders": "What it would do",
    "/access": "no authorizer",
    "/access/users": "The brokers know no users",
    "/quotas": "There are no quotas",
    "/audit": "audit",
}


@pytest.fixture(scope="module")
def visitor(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    directory = tmp_path_factory.mktemp("apache-kafka")
    with need(ApacheKafka.install).broker(directory) as kafka:
        fill(kafka.bootstrap)
        with console_started(directory, {"bootstrap.servers": kafka.bootstrap}) as console:
            made = Visitor(browser, f"{console.url}/c/kafka")
            yield made
            made.close()
            assert made.wrong == []


def fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 1, 1)]).raise_for_errors()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(50):
            producer.send("orders", b'{"n": %d}' % number, b"order-%d" % number)
    with Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        while not any(consumer.poll(1000).values()):
            pass
        consumer.commit()


def test_every_page(visitor: Visitor) -> None:
    for path, words in PAGES.items():
        visitor.go(path)
        expect(visitor.page.locator("main")).to_contain_text(words)


def test_from_a_topic_to_a_moved_group(visitor: Visitor) -> None:
    page = visitor.go("/new-topic")
    page.get_by_label("Name").fill("parcels")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_role("button", name="Preview the placement").click()
    expect(page.get_by_role("heading", name="Where the replicas go")).to_be_visible()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator(".message.good")).to_contain_text("parcels was made")
    page.get_by_role("link", name="Write a record").click()
    page.get_by_label("Key", exact=True).fill("p-1")
    page.get_by_label("Value", exact=True).fill('{"weight": 3}')
    page.get_by_role("button", name="Send").click()
    expect(page.locator("main")).to_contain_text('"weight": 3')
    visitor.go("/topics/orders/messages?filter=value.n == 7")
    expect(page.locator("tbody tr:not(.detail)")).to_have_count(1)
    visitor.go("/topics/orders/messages?start=key&key=order-1", 400)
    expect(page.get_by_role("alert")).to_contain_text(
        "only Odradek's brokers have an index of keys"
    )
    visitor.go("/groups/billing/reset?to=earliest&topic=orders")
    page.get_by_role("button", name="Move the group").click()
    expect(page.locator(".message.good")).to_contain_text("was moved in 1 partition")
    visitor.go("/topics/parcels/manage")
    page.get_by_label("Type parcels to delete the topic").fill("parcels")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.locator(".message.good")).to_contain_text("parcels was deleted")
