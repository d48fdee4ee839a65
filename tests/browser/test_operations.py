"""Running a cluster by the console: balance, moves, leaders. After the tests of the pages without
data, for it makes topics."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
from odradek.client.errors import ProducerFenced
from odradek.client.sync import Admin, NewTopic, Producer
from odradek.protocol.types import TopicPartition
from odradek.testing.cluster import Cluster
from tests.browser.apache_kafka_cluster import ON_APACHE_KAFKA
from tests.browser.chromium import Visitor
from tests.browser.console_process import console_started
from tests.browser.data import HOSTILE
from tests.scenarios.hanging_transaction import PRODUCER_ID, leave_hanging

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def visitor(
    browser: Browser, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Visitor]:
    # The journal of balance is in the home directory of the user otherwise.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with console_started(tmp_path, {"bootstrap.servers": cluster.bootstrap}) as console:
        made = Visitor(browser, f"{console.url}/c/kafka")
        yield made
        made.close()
        assert made.wrong == []


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as opened:
        yield opened


def test_a_plan_is_shown_and_carried_out(visitor: Visitor, admin: Admin) -> None:
    admin.create_topics(
        # More than what other tests may have left on the other broker.
        [NewTopic("uneven", assignments={n: [1] for n in range(100)})]
    ).raise_for_errors()
    page = visitor.go("/balance")
    page.get_by_label("What to do").select_option("remove-broker")
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("Brokers: say which")
    page.get_by_label("Brokers", exact=True).fill("77")
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no broker 77")
    page.get_by_label("What to do").select_option("balance")
    page.get_by_label("Brokers", exact=True).fill("")
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan")
    expect(page.get_by_role("table").last).to_contain_text("uneven-")
    assert visitor.axe() == []
    page.get_by_label("Throttle in MB a second").fill("fast")
    page.get_by_role("button", name="Carry the plan out").click()
    expect(page.get_by_role("alert")).to_contain_text("Throttle: a number")
    page.get_by_label("Throttle in MB a second").fill("20")
    page.get_by_role("button", name="Carry the plan out").click()
    expect(page.locator("#progress")).to_contain_text("completed", timeout=30_000)
    expect(page.locator("#progress")).to_contain_text("0 moving, 0 waiting")
    assert visitor.axe() == []
    partitions = admin.list_topics()["uneven"].partitions.values()
    assert {int(one.replicas[0]) for one in partitions} == {1, 2}
    visitor.go("/balance/plans/nothing", 404)


def test_a_move_is_watched_and_stopped(visitor: Visitor, admin: Admin, cluster: Cluster) -> None:
    admin.create_topics([NewTopic("heavy", assignments={0: [1]})]).raise_for_errors()
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        # A follower of Apache Kafka reads up to 1 MB before it looks at its throttle.
        for _ in range(400):
            producer.send("heavy", b"x" * 10_000)
        producer.flush()
    throttled = {
        ConfigResource(ConfigType.BROKER, "2"): [
            ConfigChange("follower.replication.throttled.rate", "1")
        ],
        ConfigResource(ConfigType.TOPIC, "heavy"): [
            ConfigChange("follower.replication.throttled.replicas", "*")
        ],
    }
    admin.incremental_alter_configs(throttled).raise_for_errors()
    partition = TopicPartition("heavy", 0)
    admin.alter_partition_reassignments({partition: [2]}).raise_for_errors()
    page = visitor.go("/balance/moves")
    expect(page.get_by_role("region", name="List of moves")).to_contain_text("heavy-0")
    assert visitor.axe() == []
    page.get_by_role("button", name="Stop the chosen moves").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose the moves to stop")
    page.get_by_label("Choose heavy-0").check()
    page.get_by_role("button", name="Stop the chosen moves").click()
    expect(page.locator(".message.good")).to_contain_text("1 move was stopped")
    expect(page.locator("main")).to_contain_text("Nothing moves")
    assert [int(one) for one in admin.list_topics()["heavy"].partitions[0].replicas] == [1]
    admin.incremental_alter_configs(
        {
            ConfigResource(ConfigType.BROKER, "2"): [
                ConfigChange("follower.replication.throttled.rate", str(10**9))
            ]
        }
    ).raise_for_errors()


def test_the_first_replicas_are_elected(visitor: Visitor, admin: Admin) -> None:
    admin.create_topics([NewTopic("led", assignments={0: [1, 2]})]).raise_for_errors()
    partition = TopicPartition("led", 0)
    # The order changes, and with it the preferred leader; the leader stays.
    admin.alter_partition_reassignments({partition: [2, 1]}).raise_for_errors()
    page = visitor.go("/balance/leaders")
    row = page.get_by_role("row").filter(has_text="led-0")
    expect(row).to_contain_text("can lead")
    assert visitor.axe() == []
    page.get_by_label("Choose led-0").check()
    page.get_by_role("button", name="Elect the first replicas").click()
    expect(page.locator(".message.good")).to_contain_text("1 partition is led by the first replica")
    assert int(admin.list_topics()["led"].partitions[0].leader) == 2


def test_transactions_are_aborted(visitor: Visitor, admin: Admin, cluster: Cluster) -> None:
    admin.create_topics([NewTopic("paid", 1, 1)]).raise_for_errors()
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=HOSTILE[1]) as hostile:
        hostile.init_transactions()
    page = visitor.go("/transactions?all=1")
    page.get_by_role("link", name="<img src=x").click()
    expect(page.locator("h1")).to_have_text(HOSTILE[1])
    assert page.evaluate("document.body.dataset.hacked") is None
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="payments-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("paid", b"half")
        producer.flush()
        page = visitor.go("/transactions")
        page.get_by_role("link", name="payments-1").click()
        expect(page.locator("main")).to_contain_text("paid-0")
        assert visitor.axe() == []
        page.get_by_label("Type payments-1 to abort the transaction").fill("payments-1")
        page.get_by_role("button", name="Abort transaction").click()
        expect(page.locator(".message.good")).to_contain_text("its producer is fenced")
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()


def test_a_transaction_that_hangs_is_found_and_aborted(
    visitor: Visitor, admin: Admin, cluster: Cluster
) -> None:
    admin.create_topics([NewTopic("left", assignments={0: [1]})]).raise_for_errors()
    # Playwright's own event loop is in this thread.
    leaving = leave_hanging(cluster.bootstrap.split(",")[0], "left", 1_790_000_000_000)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, leaving).result(20)
    page = visitor.go("/hanging-transactions?topic=left")
    page.get_by_role("link", name="Look and abort").click()
    expect(page.locator("main")).to_contain_text("No coordinator knows this transaction")
    assert visitor.axe() == []
    page.get_by_label(f"Type {PRODUCER_ID} to abort the transaction").fill(str(PRODUCER_ID))
    page.get_by_role("button", name="Abort transaction").click()
    expect(page.locator(".message.good")).to_contain_text("was aborted")
    visitor.go("/hanging-transactions?topic=left")
    expect(page.locator("main")).to_contain_text("No transaction hangs")
    visitor.go(f"/topics/left/transactions/0/{PRODUCER_ID}", 404)


def test_a_setting_of_all_brokers_and_of_one(visitor: Visitor, admin: Admin) -> None:
    name = "log.cleaner.backoff.ms"
    page = visitor.go(f"/brokers/settings?q={name}")
    value = page.get_by_label(f"Value of {name} for all brokers")
    value.fill("soon")
    page.get_by_role("button", name="Save for all").click()
    expect(page.get_by_role("alert")).to_contain_text(name)
    visitor.go(f"/brokers/settings?q={name}")
    value.fill("14000")
    page.get_by_role("button", name="Save for all").click()
    expect(page.locator(".message.good")).to_contain_text(f"All brokers: {name} is 14000 now")
    resource = ConfigResource(ConfigType.BROKER, "2")
    admin.incremental_alter_configs({resource: [ConfigChange(name, "13000")]}).raise_for_errors()
    visitor.go(f"/brokers/settings?q={name}&which=differs")
    row = page.locator("details.setting")
    expect(row).to_contain_text("Broker 2 keeps a value of its own")
    expect(row).to_contain_text("13000")
    assert visitor.axe() == []
    page.get_by_role("button", name="Take it away").click()
    expect(page.locator(".message.good")).to_contain_text("has its default again")
    visitor.go(f"/brokers/2/settings?q={name}")
    page.locator("summary").press("Enter")
    page.get_by_role("button", name="Back to the default").click()
    expect(page.locator(".message.good")).to_contain_text("has its default again")


def test_the_level_of_a_logger(visitor: Visitor, admin: Admin) -> None:
    name = "org.apache.kafka.common.metrics.Metrics" if ON_APACHE_KAFKA else "odradek.request"
    page = visitor.go(f"/brokers/1/loggers?q={name}")
    assert visitor.axe() == []
    level = page.get_by_label(f"Level of {name}", exact=True)
    before = level.input_value()
    level.select_option("DEBUG")
    page.get_by_role("button", name=f"Set {name}", exact=True).click()
    expect(page.locator(".message.good")).to_contain_text("writes from DEBUG on now")
    expect(level).to_have_value("DEBUG")
    page.get_by_role("button", name=f"Reset {name}", exact=True).click()
    expect(level).to_have_value(before)
    visitor.go("/brokers/77/loggers", 404)
