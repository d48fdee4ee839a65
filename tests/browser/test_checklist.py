"""What people do in other consoles, by visible labels alone.

The list of kafbat's kafka-ui has 32 scenarios: 7 of navigation, 2 of the list of topics, 4 of
making and deleting topics (some of them twice), 3 of records, 2 of brokers, 1 of schemas, 8 of
connectors (4 of them twice), 3 of ksqlDB. They are written anew here, for pages that have other
forms of the same things; connectors are in test_other_services.py, SQL is with its own pages.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import Visitor

pytestmark = pytest.mark.xdist_group("browser")


def test_every_section_is_reached_from_the_navigation(visitor: Visitor) -> None:
    page = visitor.go("")
    for link, heading in {
        "Brokers": "Brokers",
        "Topics": "Topics",
        "Groups": "Consumer groups",
        "Schemas": "Schemas",
        "Connectors": "Connectors",
        "SQL": "SQL",
        "Pipelines": "pipelines",
        "Balance": "Balance",
        "Access": "Access",
        "Audit": "Audit",
        "Quotas": "Quotas",
        "Overview": None,
    }.items():
        page.get_by_label("Sections").get_by_role("link", name=link).click()
        shown = page.get_by_role("heading", level=1)
        expect(shown).to_contain_text(heading or re.compile("."))
        current = page.get_by_label("Sections").locator("[aria-current=page]")
        expect(current).to_have_text(re.compile(link))


def list_topics(visitor: Visitor, text: str, count: int) -> None:
    """Opens the list of topics with a text in their names, until there are so many: in Apache Kafka
    a broker hears of a topic a moment after the one that made it."""
    for _ in range(50):
        visitor.go(f"/topics?q={text}")
        if visitor.page.locator("tbody th a").count() == count:
            return
    expect(visitor.page.locator("tbody th a")).to_have_count(count)


def test_topics_are_selected_emptied_and_deleted(visitor: Visitor) -> None:
    page = visitor.page
    for name in ("check-a", "check-b"):
        visitor.go("/new-topic")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Partitions", exact=True).fill("2")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
    list_topics(visitor, "check-", 2)
    buttons = {
        name: page.get_by_role("button", name=f"{name} selected")
        for name in ("Delete", "Clone", "Purge")
    }
    for button in buttons.values():
        expect(button).to_be_disabled()
    page.get_by_label("Select all on this page").check()
    expect(buttons["Delete"]).to_be_enabled()
    expect(buttons["Clone"]).to_be_disabled()
    page.get_by_label("Select check-b").uncheck()
    expect(buttons["Clone"]).to_be_enabled()
    assert visitor.axe() == []
    buttons["Clone"].click()
    expect(page.get_by_role("heading", name="Clone")).to_be_visible()
    visitor.go("/topics?q=check-")
    page.get_by_label("Select all on this page").check()
    buttons["Purge"].click()
    page.get_by_label("Type 2 to confirm it").fill("2")
    page.get_by_role("button", name="Delete the records of 2 topics").click()
    expect(page.locator(".message.good")).to_contain_text("2 topics were emptied")
    visitor.go("/topics?q=check-")
    page.get_by_label("Select all on this page").check()
    buttons["Delete"].click()
    assert visitor.axe() == []
    # The server checks what was typed, too.
    csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    form = {"csrf": csrf, "action": "delete", "topic": "check-a", "confirm": "2"}
    answer = page.request.post(f"{visitor.base}/selected-topics", form=form)
    assert (answer.status, "Nothing was done" in answer.text()) == (400, True)
    page.get_by_label("Type 2 to confirm it").fill("2")
    page.get_by_role("button", name="Delete 2 topics").click()
    expect(page.locator(".message.good")).to_contain_text("2 topics were deleted")
    list_topics(visitor, "check-", 0)
    expect(page.locator("main")).to_contain_text("No topic is called like that")


def test_internal_topics_are_shown_on_demand(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    page.get_by_label("Search").fill("__consumer_off")
    expect(page.locator("main")).to_contain_text("No topic is called like that")
    expect(
        page.locator("label", has_text=re.compile(r"show internal ones \(\d+\)"))
    ).to_be_visible()
    page.get_by_label("internal ones").check()
    expect(page.get_by_role("link", name="__consumer_offsets")).to_be_visible()
    page.get_by_label("internal ones").uncheck()
    expect(page.locator("main")).to_contain_text("No topic is called like that")


def test_a_topic_with_settings_gets_a_record_with_headers(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    page.get_by_role("link", name="New topic").click()
    retention = page.get_by_label("Retention in ms")
    for button, value in {
        "12 hours": "43200000", "1 day": "86400000", "2 days": "172800000",
        "7 days": "604800000", "4 weeks": "2419200000",
    }.items():  # fmt: skip
        page.get_by_role("button", name=button).click()
        expect(retention).to_have_value(value)
    page.get_by_label("Name").fill("check-settings")
    page.get_by_label("Partitions", exact=True).fill("1")
    page.get_by_label("Cleanup policy").select_option("compact,delete")
    page.get_by_label("Further settings").fill("segment.ms=600000")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("check-settings")
    for tab in ("Partitions", "Messages", "Consumers", "Producers", "Settings", "Manage"):
        expect(page.get_by_label("Topic check-settings").get_by_text(tab)).to_be_visible()
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_label("Search").fill("600000")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("details.setting")).to_contain_text(["segment.ms"])
    page.get_by_label("Search").fill("cleanup")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("cleanup.policy", exact=True).click()
    page.get_by_label("New value of cleanup.policy").fill("delete")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".message.good")).to_contain_text("cleanup.policy is delete now")
    page.get_by_role("link", name="Write a record").click()
    page.get_by_label("Key", exact=True).fill("the-key")
    page.get_by_label("Value", exact=True).fill("the value")
    page.get_by_label("Headers").fill("colour: blue")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("link", name="Messages").click()
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("the-key")
    expect(row).to_contain_text("the value")
    page.get_by_role("button", name=re.compile("Show the record")).click()
    expect(page.locator("tr.detail")).to_contain_text("colour")
    expect(page.locator("tr.detail")).to_contain_text("blue")


def test_a_broker_shows_disks_and_settings(visitor: Visitor) -> None:
    page = visitor.go("/brokers")
    page.get_by_role("table").get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Broker 1")
    expect(page.locator("main")).to_contain_text("Replica")
    page.get_by_role("link", name="Settings", exact=True).click()
    for text, found in (
        ("offsets.topic.num", "offsets.topic.num.partitions"),
        ("plaintext:", "listeners"),
    ):
        page.get_by_label("Search").fill(text)
        page.get_by_role("button", name="Search").click()
        expect(page.locator("details.setting").first).to_contain_text(found)
    page.get_by_label("Search").fill("no-such-setting")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main")).to_contain_text("No setting is like that")
