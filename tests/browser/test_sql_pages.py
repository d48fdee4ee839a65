"""SQL in the console, with a real SQL server. After the other tests of the folder, for it makes
topics."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from odradek.testing.cluster import Cluster
from tests.browser.chromium import Visitor
from tests.browser.console_process import console_started
from tests.scenarios.sql_server import sql_started

pytestmark = pytest.mark.xdist_group("browser")

TOTALS = (
    "CREATE STREAM tea (id INT KEY, kind STRING, price DECIMAL(6, 2))"
    " WITH (kafka_topic='tea', value_format='JSON', partitions=1);\n"
    "CREATE TABLE totals WITH (kafka_topic='tea-totals') AS\n"
    "  SELECT kind, COUNT(*) AS n FROM tea GROUP BY kind EMIT CHANGES;"
)


@pytest.fixture
def visitor(browser: Browser, cluster: Cluster, tmp_path: Path) -> Iterator[Visitor]:
    service = "ksql.service.id=of-the-console"
    with sql_started(tmp_path, cluster.bootstrap, service) as server:
        url = f"http://127.0.0.1:{server.port}"
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "ksql.url": url,
            "cluster.safe.bootstrap.servers": cluster.bootstrap,
            "cluster.safe.sql.url": url,
            "cluster.safe.odradek.read.only": "true",
            "cluster.away.bootstrap.servers": cluster.bootstrap,
            "cluster.away.sql.url": "http://127.0.0.1:9",
        }
        with console_started(tmp_path, settings) as console:
            made = Visitor(browser, f"{console.url}/c/kafka")
            yield made
            made.close()
            assert made.wrong == []


def run(visitor: Visitor, text: str, button: str = "Run") -> None:
    visitor.page.get_by_label("Statements, or one query").fill(text)
    visitor.page.get_by_role("button", name=button, exact=True).click()


def test_from_a_stream_to_a_query_that_ends(visitor: Visitor) -> None:
    page = visitor.go("/sql")
    main = page.locator("main")
    expect(main).to_contain_text("No query runs yet")
    expect(main).to_contain_text("There are no tables yet")
    assert visitor.axe() == []
    run(visitor, "SHOW STREEMS;")
    expect(page.get_by_role("alert")).to_contain_text("did you mean STREAMS?")
    run(visitor, "-- nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no statement")
    run(visitor, TOTALS)
    expect(main).to_contain_text("Created query with ID")
    run(visitor, "INSERT INTO tea VALUES (1, 'green', 2.50);")
    expect(main.get_by_role("link", name="tea-totals")).to_be_visible()

    # A query that goes on, with rows from before and rows that come.
    run(visitor, "SELECT kind, price FROM tea EMIT CHANGES;")
    rows = page.locator("#rows tbody tr")
    expect(rows).to_have_text([re.compile(r"green\s*2.50")])
    expect(page.locator("#rows thead")).to_contain_text("PRICE")
    assert visitor.axe() == []
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.locator("#rows-sign")).to_have_text("stopped")
    page.get_by_role("button", name="Change the query").click()
    expect(page.get_by_label("Statements, or one query")).to_have_value(re.compile("EMIT CHANGES"))

    # One that ends, and a plan.
    run(visitor, "SELECT n FROM totals WHERE kind = 'green';")
    expect(page.get_by_role("region", name="Rows").locator("td")).to_have_text(["1"])
    run(visitor, "SELECT kind, COUNT(*) FROM tea GROUP BY kind EMIT CHANGES", "Explain")
    expect(page.locator(".plan .topic")).to_contain_text("tea")

    # The query that writes: its plan, paused, resumed, ended.
    page.get_by_role("link", name=re.compile("^CTAS_TOTALS")).click()
    expect(page.locator(".plan .topic")).to_have_count(2)
    assert visitor.axe() == []
    page.get_by_role("button", name="Pause the query").click()
    expect(page.locator(".message.good")).to_contain_text("is paused")
    page.get_by_role("button", name="Resume the query").click()
    expect(page.locator(".message.good")).to_contain_text("goes on")
    name = page.locator("h1").inner_text()
    page.get_by_label(f"Type {name} to terminate the query").fill(name)
    page.get_by_role("button", name="Terminate query").click()
    expect(page.locator(".message.good")).to_contain_text(f"Query {name} has ended")

    # What ends or deletes something is shown first.
    run(visitor, "DROP TABLE totals DELETE TOPIC; DROP STREAM tea DELETE TOPIC;")
    expect(page.get_by_role("alert")).to_contain_text("nothing was sent yet")
    assert visitor.axe() == []
    page.get_by_role("button", name="Send it all the same").click()
    expect(main).to_contain_text("There are no streams yet")

    # Other clusters of the same console: one is read-only, and of one the server is away.
    visitor.base = visitor.base.removesuffix("/c/kafka")
    visitor.go("/c/safe/sql")
    expect(main).to_contain_text("no statements are sent")
    visitor.go("/c/away/sql", 503)
    expect(main).to_contain_text("correct sql.url of the console")
    visitor.go("/c/kafka/sql/queries/CTAS_NOTHING_1", 404)
    visitor.go("/c/kafka/sql/rows/nothing", 404)
