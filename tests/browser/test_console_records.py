"""Records in the console, as its users see them: found, decoded, masked, sent again, followed."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from odradek.testing.cluster import Cluster
from tests.browser.apache_kafka_cluster import ON_APACHE_KAFKA
from tests.browser.chromium import Visitor
from tests.browser.data import ORDERS

pytestmark = pytest.mark.xdist_group("browser")


def look_up(visitor: Visitor, topic: str, key: str) -> Page:
    """Asks for the newest record of a key. Brokers without an index of keys are searched, by the
    link that the page shows."""
    path = f"/topics/{topic}/messages?start=key&key={key}"
    if not ON_APACHE_KAFKA:
        return visitor.go(path)
    page = visitor.go(path, 400)
    expect(page.get_by_role("alert")).to_contain_text("only Odradek's brokers have an index")
    page.get_by_role("link", name="Search for the key").click()
    return page


def test_records_are_found_by_text_filter_offset_and_key(visitor: Visitor) -> None:
    rows = visitor.page.locator("tbody tr:not(.detail)")
    visitor.go("/topics/orders/messages?q=ORDER-123")
    expect(rows).to_have_count(1)
    visitor.go('/topics/orders/messages?limit=20&filter=value.customer.country=="NL"')
    expect(rows).to_have_count(20)
    assert all('"NL"' in text for text in rows.all_inner_texts())
    visitor.go("/topics/orders/messages?start=offset&offset=5&partition=1&limit=3")
    assert visitor.page.locator("td.place a").all_inner_texts() == [
        "1 : 5", "1 : 6", "1 : 7",
    ]  # fmt: skip
    look_up(visitor, "orders", "order-42")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("order-42")
    visitor.go("/topics/orders/messages?start=time&time=2000-01-01&limit=5")
    expect(rows).to_have_count(5)
    for path, words in {
        "?filter=__import__('os')": "only these functions",
        "?filter=valeu.x": "did you mean",
        "?start=offset&offset=x": "is not a whole number",
        "?start=time&time=soon": "milliseconds since 1970",
        "?partition=9": "has no partition 9",
        "?start=offset": "enter the first offset",
    }.items():
        visitor.go(f"/topics/orders/messages{path}", 400)
        expect(visitor.page.get_by_role("alert")).to_contain_text(words)


def test_pages_of_records_leave_none_out(visitor: Visitor) -> None:
    page = visitor.go("/topics/orders/messages?limit=70")
    seen: list[str] = []
    while True:
        seen += page.locator("td.place a").all_inner_texts()
        more = page.get_by_role("link", name="More")
        if not more.count():
            break
        more.click()
    assert len(seen) == len(set(seen)) == ORDERS


def test_a_record_is_shown_in_its_row(visitor: Visitor) -> None:
    page = look_up(visitor, "orders", "order-1")
    page.get_by_role("button", name=re.compile("Show the record")).click()
    expect(page.locator("tr.detail")).to_contain_text('"country": "DE"')
    expect(page.locator("tr.detail")).to_contain_text("trace")


def test_formats_are_decoded(visitor: Visitor) -> None:
    main = visitor.page.locator("main")
    visitor.go("/topics/payments/messages/0/0")
    expect(main).to_contain_text('"amount": 123')
    expect(main).to_contain_text("Avro")
    visitor.go("/topics/formats/messages/0/0?value_as=msgpack")
    expect(main).to_contain_text('"kind": "packed"')
    visitor.go("/topics/formats/messages/0/1?value_as=cbor")
    expect(main).to_contain_text('"kind": "concise"')
    visitor.go("/topics/formats/messages/0/2")
    expect(main).to_contain_text("00000010  10 11 12 13")
    visitor.go("/topics/formats/messages/0/3")
    expect(main).to_contain_text("žluťoučký kůň")
    visitor.go("/topics/formats/messages/0/3?value_as=json")
    expect(main).to_contain_text("This is not JSON")
    visitor.go("/topics/formats/messages/0/4")
    expect(main).to_contain_text("a tombstone")


def test_masked_fields_are_seen_nowhere(visitor: Visitor) -> None:
    for path in (
        "/messages", "/messages/0/0", "/messages/0/0?value_as=text", "/messages/0/0?value_as=hex",
        "/produce?from=0:0", "/messages?q=Ada",
    ):  # fmt: skip
        page = visitor.go(f"/topics/customers{path}")
        assert "example.org" not in page.content(), path
        assert "secret-token" not in page.content(), path
    page = visitor.go("/topics/customers/messages?q=example.org")
    expect(page.locator("main")).to_contain_text("No record matches")
    page = visitor.go("/topics/customers/messages?start=key&key=1", 400)
    expect(page.locator("main")).to_contain_text("keys of this topic are masked")
    answer = page.request.get(f"{visitor.base}/topics/customers/download")
    assert "Ada" in answer.text()
    assert "example.org" not in answer.text()


def test_dead_letters_go_back_to_where_they_are_from(visitor: Visitor) -> None:
    page = visitor.go("/topics/letters")
    page.get_by_role("link", name="Redrive").click()
    page.get_by_label("Filter").fill("nonsense")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("nonsense")
    page.get_by_label("Filter").fill('key != "secret"')
    page.get_by_role("button", name="Preview").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("good failed")
    expect(rows.last).to_contain_text("there is no topic gone")
    page.get_by_role("button", name="Write 1 record back").click()
    expect(page.locator(".message.good")).to_contain_text("1 record was written back")
    page = visitor.go("/topics/formats/messages?q=a+letter")
    page.get_by_role("button", name=re.compile("Show the record")).click()
    detail = page.locator("tr.detail")
    expect(detail).to_contain_text("trace")
    expect(detail).to_contain_text("odradek.redriven")
    expect(detail).not_to_contain_text("__connect.errors")


def test_a_record_is_edited_and_sent_again_downloaded_and_imported(visitor: Visitor) -> None:
    page = look_up(visitor, "orders", "order-3")
    page.locator("td.place a").click()
    page.get_by_role("link", name="Edit and send again").click()
    expect(page.get_by_label("Key", exact=True)).to_have_value("order-3")
    page.get_by_label("Value", exact=True).fill("{oops")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("this is not JSON")
    page.get_by_label("Value", exact=True).fill('{"number": 3, "again": true}')
    page.get_by_role("button", name="Send").click()
    expect(page.locator("main")).to_contain_text('"again": true')
    answer = page.request.get(f"{visitor.base}/topics/orders/download?q=order-3")
    assert 'filename="orders.jsonl"' in answer.headers["content-disposition"]
    lines = answer.text()
    assert '"again": true' in lines
    page = visitor.go("/topics/lonely/import")
    page.get_by_label("Lines").fill(lines + "\nnot json")
    page.get_by_role("button", name="Write them").click()
    expect(page.get_by_role("alert")).to_contain_text("is not JSON")
    page.get_by_label("Lines").fill(lines)
    page.get_by_role("button", name="Write them").click()
    expect(page.locator(".message.good")).to_contain_text("written")


def test_records_go_through_parquet(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.go("/topics/formats/messages?start=oldest")
    with page.expect_download() as download:
        page.get_by_role("link", name="as Parquet").click()
    assert download.value.suggested_filename == "formats.parquet"
    file = tmp_path / "formats.parquet"
    download.value.save_as(file)
    (tmp_path / "wrong.parquet").write_bytes(b"PAR1 but nothing else")
    visitor.go("/topics/lonely/import")
    chosen = page.get_by_label("A file")
    chosen.set_input_files(tmp_path / "wrong.parquet")
    expect(page.locator("#h-file")).to_contain_text("is chosen")
    page.get_by_role("button", name="Write them").click()
    expect(page.get_by_role("alert")).to_contain_text("this is not a Parquet file that can be read")
    chosen.set_input_files(file)
    expect(page.locator("#h-file")).to_contain_text("is chosen")
    assert visitor.axe() == []
    page.get_by_role("button", name="Write them").click()
    expect(page.locator(".message.good")).to_contain_text("records were written")
    visitor.go("/topics/lonely/messages?q=žluťoučký")
    expect(page.locator("main")).to_contain_text("žluťoučký kůň")


def test_a_live_tail_shows_what_comes_and_says_what_it_drops(
    visitor: Visitor, cluster: Cluster
) -> None:
    from odradek.client.sync import Producer

    page = visitor.go("/topics/payments/messages?start=live")
    expect(page.locator("#live-sign")).to_have_text("live")
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("payments", b"just now", b"live-1")
        producer.flush()
        expect(page.locator("#tail")).to_contain_text("just now")
        for number in range(2000):
            producer.send("payments", f"many {number}".encode())
        producer.flush()
    expect(page.locator("#tail-note")).to_contain_text("records came faster")
