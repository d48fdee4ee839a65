"""The console, as its users see it: every page without data and with data; forms that are right and
wrong; keys; what is hostile; what the pages are like for those who cannot see them."""

import re
import shlex
import subprocess
import sys
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from odradek.client.sync import Consumer
from odradek.testing.cluster import Cluster
from tests.browser.apache_kafka_cluster import ON_APACHE_KAFKA
from tests.browser.chromium import Visitor
from tests.browser.console_process import Console
from tests.browser.data import HOSTILE
from tests.browser.new_user import NewUser

pytestmark = pytest.mark.xdist_group("browser")

EMPTY = {
    "": "Brokers running",
    "/brokers": "running",
    "/brokers/1": "Leads",
    "/brokers/1/settings": "log.retention",
    "/brokers/settings?q=log.retention": "log.retention.ms",
    "/brokers/settings?which=differs&q=log.retention": "No setting is like that",
    "/brokers/1/loggers?q=request": "Kafka's name of",
    "/topics": "There are no topics yet",
    "/new-topic": "Partitions",
    "/groups": "has a command that reads it as a group",
    "/transactions": "No transaction is open",
    "/transactions?all=1": "There are no transactional ids yet",
    "/hanging-transactions": "Looking for one asks every leader",
    "/hanging-transactions?topic=": "No transaction hangs",
    "/schemas": "No schema registry is configured",
    "/connectors": "No Kafka Connect is configured",
    "/sql": "No SQL server is configured",
    "/pipelines": "No pipelines are configured",
    "/balance": "Make a plan",
    "/balance/moves": "Nothing moves",
    "/balance/leaders": "Every partition is led by its first replica",
    "/audit": "The audit log is not switched on",
    "/access": "There are no ACLs",
    "/access/why": "Explain",
    "/access/users": "The brokers know no users",
    "/access/roles": "There are no roles",
    "/quotas": "There are no quotas",
}
EMPTY_ON_APACHE_KAFKA = {
    "/brokers/1/loggers?q=request": "Level",
    "/audit": "There is no audit log that you may see",
}
FULL = {
    "": "Busiest topics",
    "/brokers": "Processor",
    "/brokers/1": "Replica",
    "/topics": "orders",
    "/topics?q=nothing-like-it": "No topic is called like that",
    "/topics/orders": "First offset",
    "/topics/orders/messages": "order-",
    "/topics/orders/messages?q=order-7": "order-7",
    "/topics/orders/messages?start=key": "Which key?",
    "/topics/orders/messages?start=live": "Waiting for records",
    "/topics/orders/messages/0/0": "Read it elsewhere",
    "/topics/orders/produce": "Headers",
    "/topics/orders/import": "JSON object a line",
    "/topics/orders/consumers": "billing",
    "/topics/customers/consumers": "No group has read this topic",
    "/topics/orders/producers": "Producer id",
    "/topics/orders/settings": "retention.ms",
    "/topics/orders/manage": "Records with the same key may go to another partition",
    "/topics/letters/redrive?start=oldest": "What would go back",
    "/topics/lonely/messages": "There are no records yet",
    "/groups": "billing",
    "/groups/billing": "Lag in records",
    "/groups/billing/reset": "Preview",
    "/groups/billing/reset?to=earliest&topic=orders": "What it would do",
    "/schemas": "payments-value",
    "/schemas/payments-value": "What changed since version 1",
    "/new-schema": "Check the compatibility",
}


def findings(visitor: Visitor) -> list[str]:
    """Returns what axe finds in the light and in the dark. Of rows that are alike some are enough:
    hundreds of them take seconds."""
    visitor.page.evaluate(
        "document.querySelectorAll('details.setting:nth-of-type(n+12), tr:nth-child(n+12)')"
        ".forEach(row => row.remove())"
    )
    visitor.page.evaluate("document.documentElement.dataset.theme = 'light'")
    found = visitor.axe()
    visitor.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    return found + visitor.axe(("color-contrast",))


def test_every_page_without_data(browser: Browser, console: Console) -> None:
    visitor = Visitor(browser, f"{console.url}/c/kafka")
    found = {}
    for path, words in {**EMPTY, **(EMPTY_ON_APACHE_KAFKA if ON_APACHE_KAFKA else {})}.items():
        visitor.go(path)
        expect(visitor.page.locator("main")).to_contain_text(words)
        if serious := findings(visitor):
            found[path] = serious
    assert found == {}
    assert visitor.wrong == []
    visitor.close()


def test_every_page_with_data(visitor: Visitor) -> None:
    found = {}
    for path, words in FULL.items():
        visitor.go(path)
        expect(visitor.page.locator("main")).to_contain_text(words)
        if serious := findings(visitor):
            found[path] = serious
    assert found == {}


def test_pages_that_are_not_there(visitor: Visitor) -> None:
    for path, words in {
        "/nothing": "Nothing is at this address",
        "/topics/nothing": "There is no such topic",
        "/topics/orders/messages/0/99999": "no record at offset",
        "/groups/nothing": "there is no group",
        "/schemas/nothing": "does not know it",
        "/brokers/77": "no broker 77",
    }.items():
        visitor.go(path, 404)
        expect(visitor.page.locator("main")).to_contain_text(words)
        assert findings(visitor) == []
    # It would be found.
    visitor.page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert [one.partition(":")[0] for one in visitor.axe()] == ["label"]


def test_fits_every_screen(visitor: Visitor) -> None:
    for width in (360, 800, 3840):
        visitor.page.set_viewport_size({"width": width, "height": 900})
        for path in (
            "", "/topics", "/topics/orders/messages", "/topics/orders/manage", "/balance",
            "/brokers/settings?q=log.retention", "/brokers/1/loggers?q=request", "/audit",
            "/hanging-transactions", "/balance/leaders",
        ):  # fmt: skip
            visitor.go(path)
            wide = visitor.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, width, wide)


def test_a_telephone_shows_which_records_there_are(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 360, "height": 740})
    page = visitor.go("/topics/orders/messages")
    for part in ("place", "key"):
        box = page.locator(f"tbody td.{part}").first.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 360, (part, box)
    # The value begins beside them.
    value = page.locator("tbody td:has(.tag)").first.bounding_box()
    assert value is not None
    assert value["x"] < 300, value


# A new user, by labels alone


def test_from_a_new_topic_to_the_lag_of_a_group(visitor: Visitor, whole_console: Console) -> None:
    page = visitor.page
    page.goto(whole_console.url)
    user = NewUser(page)
    user.follow("Topics")
    user.follow("New topic")
    user.fill("Name", "parcels")
    user.press("Create")
    expect(page.locator(".message.good")).to_contain_text("Topic parcels was made")
    user.follow("Write a record")
    user.fill("Key", "p-1")
    user.fill("Value", '{"weight": 3}')
    user.press("Send")
    expect(page.locator(".message.good")).to_contain_text("Written to partition")
    user.follow("Messages")
    user.choose("Show", "Newest record of a key")
    user.fill("Key", "p-1")
    user.press("Show")
    if ON_APACHE_KAFKA:
        user.follow("Search for the key, the newest record first")
    expect(page.get_by_role("table")).to_contain_text('"weight": 3')
    user.follow("Groups")
    user.follow("billing")
    lag = page.locator("dl.tiles > div").filter(has_text="Lag in records").locator("dd")
    expect(lag).to_have_text(re.compile(r"^[\d,]+$"))
    assert len(user.actions) <= 15, user.actions


def test_the_placement_of_a_new_topic_is_previewed(visitor: Visitor) -> None:
    page = visitor.go("/new-topic")
    page.get_by_label("Name").fill("placed")
    page.get_by_role("button", name="Preview the placement").click()
    expect(page.get_by_role("heading", name="Where the replicas go")).to_be_visible()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator(".message.good")).to_contain_text("Topic placed was made")


def test_a_command_of_the_page_makes_a_group(visitor: Visitor) -> None:
    """Where no program reads yet, a new user finds out how to get a group and its lag."""
    page = visitor.page
    visitor.go("/new-topic")
    page.get_by_label("Name").fill("unread")
    page.get_by_role("button", name="Create", exact=True).click()
    user = NewUser(page)
    for value in ("one", "two"):
        user.follow("Write a record")
        user.fill("Value", value)
        user.press("Send")
        expect(page.locator(".message.good")).to_contain_text("Written to partition")
    user.follow("Consumers")
    expect(page.locator("main")).to_contain_text("No group has read this topic")
    # Somebody would press Ctrl-C after the first record.
    words = shlex.split(page.get_by_label("odradek", exact=True).inner_text())
    command = [sys.executable, "-m", "odradek.cli", *words[1:], "--max-messages", "1"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stdout) == (0, "one\n"), said.stderr
    visitor.go("/topics/unread/consumers")
    user.follow("my-group")
    lag = page.locator("dl.tiles > div").filter(has_text="Lag in records").locator("dd")
    expect(lag).to_have_text("1")


# Topics


def test_topics_are_searched_sorted_pinned_and_hidden(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    names = page.locator("tbody th a")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    expect(names).to_have_text(["orders"])
    page = visitor.go("/topics")
    page.get_by_role("link", name="Partitions").click()
    expect(names.first).to_have_text("orders")
    page.get_by_role("button", name="Pin payments").click()
    expect(names.first).to_have_text("payments")
    page.get_by_role("button", name="Hide hostile").click()
    assert "hostile" not in names.all_inner_texts()
    page.get_by_label("hidden ones").check()
    expect(page.get_by_role("link", name="hostile")).to_be_visible()


def test_a_topic_with_a_bad_name_is_refused(visitor: Visitor) -> None:
    page = visitor.go("/new-topic")
    page.get_by_label("Name").fill("not a name!")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("name")
    expect(page.get_by_label("Name")).to_have_value("not a name!")
    page.get_by_label("Name").fill("wide")
    page.get_by_label("Replicas", exact=True).fill("9")
    page.get_by_role("button", name="Preview the placement").click()
    expect(page.get_by_role("alert")).to_contain_text("9")
    page.get_by_label("Partitions", exact=True).fill("many")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("'many' is not a whole number")


def test_a_setting_is_changed_and_reset(visitor: Visitor) -> None:
    page = visitor.go("/topics/orders/settings")
    page.get_by_text("max.message.bytes", exact=True).click()
    field = page.get_by_label("New value of max.message.bytes")
    field.fill("x")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("max.message.bytes")
    page.get_by_text("max.message.bytes", exact=True).click()
    field.fill("2000000")
    field.press("Enter")
    expect(page.locator(".message.good")).to_contain_text("max.message.bytes is 2000000 now")
    page.get_by_text("max.message.bytes", exact=True).click()
    page.locator("details[open]").get_by_role("button", name="Back to the default").click()
    expect(page.locator(".message.good")).to_contain_text("has its default again")


def test_a_topic_grows_is_cloned_purged_and_deleted(visitor: Visitor) -> None:
    page = visitor.go("/topics/formats/manage")
    page.get_by_label("Name of the new topic").fill("formats-2")
    page.get_by_label("copy its records too").check()
    page.get_by_role("button", name="Clone").click()
    expect(page.locator(".message.good")).to_contain_text("is like formats with 5 records")
    page.get_by_role("link", name="Manage").click()
    page.get_by_label("New number of partitions").fill("1")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("New number of partitions").fill("4")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.locator(".message.good")).to_contain_text("has 4 partitions now")
    page.get_by_role("link", name="Manage").click()
    button = page.get_by_role("button", name="Delete records")
    expect(button).to_be_disabled()
    page.get_by_label("Type formats-2 to delete its records").fill("formats-2")
    button.click()
    expect(page.locator(".message.good")).to_contain_text("All records of formats-2 were deleted")
    page.get_by_role("link", name="Manage").click()
    page.get_by_label("Type formats-2 to delete the topic").fill("formats-2")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.locator(".message.good")).to_contain_text("Topic formats-2 was deleted")


# Groups


def test_a_group_is_moved_after_a_preview(visitor: Visitor) -> None:
    page = visitor.go("/groups/billing")
    page.get_by_role("link", name="Move the group").click()
    page.get_by_label("To", exact=True).select_option("shift")
    page.get_by_label("By how many records").fill("-10")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("The group reads 3")
    page.get_by_role("button", name="Move the group").click()
    expect(page.locator(".message.good")).to_contain_text("was moved in 3 partitions")
    page = visitor.go("/groups/billing/reset?to=shift&topic=orders", 400)
    expect(page.get_by_role("alert")).to_contain_text("by how many records")
    page.get_by_label("To", exact=True).select_option("each")
    page.get_by_label("Offsets", exact=True).fill("orders 0 five")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("is not TOPIC PARTITION OFFSET")
    page.get_by_label("Offsets", exact=True).fill("orders 0 5\npayments 0 1")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Move the group").click()
    expect(page.locator(".message.good")).to_contain_text("was moved in 2 partitions")
    page = visitor.go("/groups/billing/reset?to=earliest&other_topic=lonely")
    expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_shown_with_what_they_read(
    visitor: Visitor, cluster: Cluster, protocol: Literal["classic", "consumer"]
) -> None:
    with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap, group_id=f"live-{protocol}",
        group_protocol=protocol, auto_offset_reset="earliest", client_id="the-client",
    ) as consumer:  # fmt: skip
        while not any(consumer.poll(1000).values()):
            pass
        consumer.commit()
        page = visitor.go(f"/groups/live-{protocol}")
        row = page.get_by_role("region", name="Members").locator("tbody tr")
        expect(row).to_contain_text("the-client")
        expect(row).to_contain_text("orders 0, 1, 2")
        expect(page.locator("dl.tiles")).to_contain_text(protocol.capitalize())
        assert visitor.axe() == []
        page = visitor.go(f"/groups/live-{protocol}/reset?to=earliest&topic=orders")
        expect(page.locator(".message.warn")).to_contain_text("stop its consumers first")
        expect(page.get_by_role("button", name="Move the group")).to_be_disabled()


# What is hostile


def test_nothing_hostile_runs(visitor: Visitor, whole_console: Console) -> None:
    page = visitor.go("/topics/hostile/messages?limit=100")
    for button in page.get_by_role("button", name=re.compile("Show the record")).all()[:6]:
        button.click()
    expect(page.locator("tr.detail #record")).to_have_count(6)
    paths = [f"/topics/hostile/messages/0/{offset}" for offset in range(0, 12, 2)]
    paths += ["/topics/hostile/produce?from=0:0", "/topics/hostile/consumers", "/groups"]
    paths += ["/topics/hostile/redrive?start=oldest"]
    paths += [f"/topics?q={quote(text, errors='replace')}" for text in HOSTILE]
    paths += [f"/topics/hostile/messages?q={quote(text, errors='replace')}" for text in HOSTILE]
    for path in paths:
        visitor.go(path)
        assert page.evaluate("document.body.dataset.hacked") is None, path
    visitor.go("/groups")
    group = page.locator("tbody th a", has_text="<script>")
    group.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE[0])
    assert page.evaluate("document.body.dataset.hacked") is None


def test_forms_of_others_change_nothing(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    fields = {"name": "planted", "action": "create"}
    answer = page.request.post(f"{visitor.base}/new-topic", form=fields)
    assert answer.status == 403
    stolen = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = page.request.post(
            f"{visitor.base}/new-topic", form={**fields, "csrf": stolen}, headers=headers
        )
        assert answer.status == 403, headers
    answer = page.request.get(visitor.base, headers={"host": "evil.example"})
    assert answer.status == 421
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert page.request.get(visitor.base, headers=link).status == 200
    frame = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}
    assert page.request.get(visitor.base, headers=frame).status == 403


def test_read_only_changes_nothing(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    page.get_by_role("link", name="safe").click()
    expect(page.get_by_text("read-only", exact=True)).to_be_visible()
    visitor.base = visitor.base.replace("/c/kafka", "/c/safe")
    page = visitor.go("/topics")
    assert page.get_by_role("link", name="New topic").count() == 0
    csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    fields = {"name": "planted", "action": "create", "csrf": csrf}
    assert page.request.post(f"{visitor.base}/new-topic", form=fields).status == 403
    assert "planted" not in visitor.go("/topics").content()


# Comfort


def test_keys_and_theme(visitor: Visitor) -> None:
    page = visitor.go("")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Change between light and dark").click()
    page = visitor.go("/groups")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_tabs_share_one_stream(visitor: Visitor) -> None:
    first = visitor.go("")
    expect(first.locator("#live-sign")).to_have_text("live")
    second = visitor.context.new_page()
    second.goto(visitor.base)
    expect(second.locator("#live-sign")).to_have_text("live")
    for page in (first, second):
        expect(page.locator("#live-problem")).to_be_hidden()
    shared = second.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert not [name for name in shared if name.endswith("/live")]


def test_quotas(visitor: Visitor) -> None:
    page = visitor.go("/quotas")
    page.get_by_label("Value").fill("1000")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Say for whom")
    page.get_by_label("Client id").fill("reports")
    page.get_by_label("Value").fill("1000")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("client id reports")
    page.get_by_role("button", name=re.compile("Remove producer_byte_rate")).click()
    expect(page.locator("main")).to_contain_text("There are no quotas")


def test_schemas_are_checked_and_registered(visitor: Visitor) -> None:
    page = visitor.go("/schemas/payments-value")
    page.get_by_role("link", name="New version").click()
    page.get_by_role("textbox", name="Schema").fill('{"type": "string"}')
    page.get_by_role("button", name="Check the compatibility").click()
    expect(page.get_by_role("alert")).to_contain_text("It is not compatible")
    page.get_by_label("Subject").fill("parcels-value")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("parcels-value")
