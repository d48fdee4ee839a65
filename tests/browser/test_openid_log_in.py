"""Logging in at a real OpenID provider, with a token that the brokers check."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visitor
from tests.browser.console_process import Console, console_started
from tests.browser.openid_cluster import OpenIdCluster, openid_cluster
from tests.openid_provider import CLIENT, SECRET

pytestmark = pytest.mark.xdist_group("browser")


def seen(cluster: OpenIdCluster) -> dict[str, int]:
    """Returns how many log-ins, renewals and revocations the provider has seen."""
    with urllib.request.urlopen(f"{cluster.issuer}/seen") as answer:
        found: dict[str, int] = json.load(answer)
        return found


def settings_for(cluster: OpenIdCluster) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bearer_address,
        "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "OAUTHBEARER",
        "odradek.openid.issuer": cluster.issuer,
        "odradek.openid.client.id": CLIENT,
        "odradek.openid.client.secret": SECRET,
        "odradek.access.log": "true",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIdCluster]:
    # The brokers give no delegation tokens, so the token of the provider is what they see. The
    # console replaces it half a minute before its end: at each page after the first second.
    with openid_cluster(tmp_path_factory.mktemp("openid"), lifetime_s=31, has_tokens=False) as made:
        yield made


@pytest.fixture(scope="module")
def console(cluster: OpenIdCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with console_started(tmp_path_factory.mktemp("console"), settings_for(cluster)) as started:
        yield started


@pytest.fixture
def visitor(browser: Browser, console: Console) -> Iterator[Visitor]:
    made = Visitor(browser, f"{console.url}/c/kafka")
    yield made
    made.close()
    assert made.wrong == []


def log_in(visitor: Visitor, name: str) -> None:
    page = visitor.go("/topics?q=le")
    page.get_by_role("link", name="Log in with 127.0.0.1").click()
    page.get_by_label("Account").fill(name)
    page.get_by_role("button", name="Sign in").click()


def test_a_log_in_and_a_log_out(visitor: Visitor, console: Console, cluster: OpenIdCluster) -> None:
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    visitor.go("/topics")
    assert visitor.axe() == []
    log_in(visitor, "ada")
    # Back at the page that was asked for, as the user that the brokers know by the token.
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert page.url.endswith("/c/kafka/topics?q=le")
    expect(page.locator("tbody th a")).to_have_text(["ledger"])
    expect(page.locator("header.top")).to_contain_text("ada")
    assert visitor.page.request.get(f"{visitor.base}/topics/payroll").status in {403, 404}
    begun = next(url for url in asked if "/authorize?" in url)
    query = {name: values[0] for name, values in parse_qs(urlsplit(begun).query).items()}
    assert query["code_challenge_method"] == "S256"
    assert len(query["state"]) >= 32 <= len(query["nonce"])
    cookies = [one for one in page.context.cookies() if one["name"] == "odradek-console"]
    assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Lax")]
    # Each token is replaced before it ends, and the user notices nothing.
    before, looks = seen(cluster)["renewed"], 0
    while seen(cluster)["renewed"] == before:
        visitor.go("/topics/ledger")
        expect(page.get_by_role("heading", level=1)).to_have_text("ledger")
        looks += 1
        assert looks < 100
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in to kafka")
    assert seen(cluster)["revoked"] == 1
    page.get_by_role("link", name="Log out of 127.0.0.1 too").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Signed out")
    # A JWT begins so. None is in a URL, a cookie or the log.
    kept = [*asked, *(one["value"] for one in page.context.cookies()), console.log.read_text()]
    assert not [text for text in kept if re.search(r"eyJ[\w-]+\.|the-console-secret", text)]
    assert query["state"] not in console.log.read_text()


def test_what_the_provider_or_the_brokers_refuse_is_said(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    page.get_by_role("link", name="Log in with 127.0.0.1").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("did not let you in: access_denied")
    for path in ("", "?state=x&code=y", "?code=y&state="):
        answer = page.request.get(visitor.base.replace("/c/", "/log-in/") + "/openid" + path)
        assert answer.status == 400
        assert "not begun in this browser" in answer.text()


def test_an_answer_counts_once_and_in_its_browser(browser: Browser, console: Console) -> None:
    victim = Visitor(browser, f"{console.url}/c/kafka")
    back: list[str] = []
    victim.page.on(
        "request", lambda request: back.append(request.url) if "code=" in request.url else None
    )
    log_in(victim, "ada")
    expect(victim.page.get_by_role("heading", level=1)).to_have_text("Topics")
    victim.page.goto(back[0])
    expect(victim.page.get_by_role("alert")).to_contain_text("not begun in this browser")
    other = Visitor(browser, f"{console.url}/c/kafka")
    other.page.goto(back[0])
    expect(other.page.get_by_role("alert")).to_contain_text("not begun in this browser")
    other.close()
    victim.close()


def test_a_token_becomes_a_delegation_token(browser: Browser, tmp_path: Path) -> None:
    with (
        openid_cluster(tmp_path, lifetime_s=600, has_tokens=True) as cluster,
        console_started(tmp_path, settings_for(cluster)) as console,
    ):
        visitor = Visitor(browser, f"{console.url}/c/kafka")
        log_in(visitor, "ada")
        expect(visitor.page.locator("tbody th a")).to_have_text(["ledger"])
        assert "give no delegation tokens" not in console.log.read_text()
        visitor.close()
    # The provider has gone with its keys: this console cannot even begin.
    with console_started(tmp_path, settings_for(cluster)) as console:
        visitor = Visitor(browser, f"{console.url}/c/kafka")
        page = visitor.go("/topics")
        page.get_by_role("link", name="Log in with 127.0.0.1").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        visitor.close()
