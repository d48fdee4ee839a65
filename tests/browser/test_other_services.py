"""Connectors of a real worker by the pages of the console, and services that are away. After the
other tests of the folder, for the worker makes topics."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from odradek.testing.cluster import Cluster
from tests.browser.chromium import Visitor
from tests.browser.console_process import console_started
from tests.scenarios.service_process import service_started

pytestmark = pytest.mark.xdist_group("browser")

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def visitor(browser: Browser, cluster: Cluster, tmp_path: Path) -> Iterator[Visitor]:
    worker = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "worker-of-the-console",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
    }
    for kind in ("config", "offset", "status"):
        worker[f"{kind}.storage.topic"] = f"console-connect-{kind}"
        worker[f"{kind}.storage.replication.factor"] = "1"
    file, log = tmp_path / "worker.properties", tmp_path / "worker.log"
    with service_started("connect-distributed", file, worker, log) as url:
        settings = {"bootstrap.servers": cluster.bootstrap, "connect.url": url}
        with console_started(tmp_path, settings) as console:
            made = Visitor(browser, f"{console.url}/c/kafka")
            yield made
            made.close()
            assert made.wrong == []


def test_a_connector_is_made_paused_and_deleted(visitor: Visitor, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    page = visitor.go("/connectors")
    expect(page.locator("main")).to_contain_text("There are no connectors yet")
    page.get_by_role("link", name="New connector").click()
    page.get_by_label("Name").fill("lines")
    page.get_by_label("Plug-in").select_option(SOURCE)
    page.get_by_role("button", name="Continue").click()
    # The form is made of the plug-in's own settings, with their documentation.
    expect(page.get_by_label("topic needed")).to_be_visible()
    assert visitor.axe() == []
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("the fields say why")
    expect(page.locator(".wrong").first).to_contain_text("topic")
    assert visitor.axe() == []
    page.get_by_label("file", exact=True).fill(f"{tmp_path}/lines.txt")
    page.get_by_label("topic needed").fill("from-a-file")
    page.get_by_role("button", name="Check the settings").click()
    expect(page.locator(".message.good")).to_contain_text("The plug-in accepts it")
    page.get_by_role("button", name="Preview the next records").click()
    expect(page.get_by_label("Record 1")).to_contain_text('"value": "one"')
    assert visitor.axe() == []
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".message.good")).to_contain_text("lines was made")
    assert visitor.axe() == []
    _change_and_reset(visitor)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".message.good")).to_contain_text("pause was asked for")
    visitor.go("/connectors")
    expect(page.locator("tbody th")).to_have_text("lines")
    assert visitor.axe() == []
    page.get_by_role("link", name="lines", exact=True).click()
    page.get_by_label("Type lines to delete the connector").fill("lines")
    page.get_by_role("button", name="Delete connector").click()
    expect(page.locator(".message.good")).to_contain_text("lines was deleted")
    visitor.go("/connectors/lines", 404)


def _change_and_reset(visitor: Visitor) -> None:
    """Changes a setting, restarts a task, and lets the connector begin again."""
    page = visitor.page
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("batch.size").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".message.good")).to_contain_text("lines was changed")
    restart = page.get_by_role("button", name="Restart task 0")
    soon(visitor, lambda: expect(restart).to_be_visible(timeout=500))
    restart.click()
    expect(page.locator(".message.good")).to_contain_text("Task 0 of lines restarts")
    page.get_by_role("link", name="Log").click()
    expect(page.get_by_role("heading", name="Log")).to_be_visible()
    assert visitor.axe() == []
    page.get_by_role("link", name="Offsets").click()
    assert visitor.axe() == []
    confirm = page.get_by_label("Type lines to remove its offsets")
    confirm.fill("lines")
    page.get_by_role("button", name="Remove offsets").click()
    expect(page.get_by_role("alert")).to_contain_text("STOPPED")
    page.get_by_role("link", name="Tasks").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("link", name="Offsets").click()
    soon(
        visitor,
        lambda: expect(page.locator("main > header")).to_contain_text("stopped", timeout=500),
    )
    confirm.fill("lines")
    page.get_by_role("button", name="Remove offsets").click()
    expect(page.locator(".message.good")).to_contain_text("begins again")
    page.get_by_role("link", name="Tasks").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".message.good")).to_contain_text("resume was asked for")


def soon(visitor: Visitor, look: Callable[[], None]) -> None:
    """Loads the page again until it shows what a worker does a moment later."""
    for _ in range(40):
        try:
            look()
        except AssertionError:
            visitor.page.reload()
        else:
            return
    look()


def test_a_worker_that_is_away_is_named(browser: Browser, cluster: Cluster, tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "connect.url": "http://127.0.0.1:9",
        "schema.registry.url": "http://127.0.0.1:9",
    }
    with console_started(tmp_path, settings) as console:
        visitor = Visitor(browser, f"{console.url}/c/kafka")
        page = visitor.go("/connectors", 503)
        expect(page.locator("main")).to_contain_text("correct connect.url of the console")
        page = visitor.go("/schemas", 503)
        expect(page.locator("main")).to_contain_text("correct schema.registry.url")
        visitor.close()
    settings = {"bootstrap.servers": "127.0.0.1:9"}
    with console_started(tmp_path, settings) as console:
        visitor = Visitor(browser, f"{console.url}/c/kafka")
        page = visitor.go("")
        expect(page.locator("#live-problem")).to_contain_text("The brokers do not answer")
        page = visitor.go("/topics", 503)
        expect(page.locator("main")).to_contain_text("Start the brokers")
        visitor.close()
