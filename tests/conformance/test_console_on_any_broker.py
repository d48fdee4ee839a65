"""The console on Apache Kafka and on our brokers: every page, and the forms that change something.
Without a browser, for pages and forms are HTML; tests/browser looks at them in one."""

import http.cookiejar
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import pytest

from benchmarks.broker_process import BrokerProcess
from odradek.client import Consumer
from tests.browser.console_process import console_started

PAGES = (
    "", "/brokers", "/brokers/{broker}", "/brokers/{broker}/settings", "/topics", "/topics/{topic}",
    "/topics/{topic}/messages", "/topics/{topic}/messages/0/0", "/topics/{topic}/consumers",
    "/topics/{topic}/producers", "/topics/{topic}/settings", "/topics/{topic}/manage",
    "/topics/{topic}/produce", "/groups", "/groups/{group}", "/access", "/access/users", "/quotas",
    "/groups/{group}/reset?to=earliest&topic={topic}", "/balance", "/balance/moves",
    "/balance/leaders", "/transactions?all=1", "/hanging-transactions?topic={topic}",
    "/brokers/settings", "/brokers/{broker}/loggers?q=request", "/access/roles", "/audit", "/sql",
    "/pipelines", "/topics/{topic}/download?as=parquet", "/connectors", "/schemas",
)  # fmt: skip


class Browser:
    """Follows links and sends forms, with a cookie."""

    def __init__(self, base: str) -> None:
        self.base = base
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)
        self._csrf = re.findall(r'name="csrf" value="(\w+)"', self.get("/new-topic")[1])[0]

    def get(self, path: str) -> tuple[int, str]:
        return self._ask(path, None)

    def send(self, path: str, **fields: str) -> tuple[int, str]:
        return self._ask(path, urlencode({**fields, "csrf": self._csrf}).encode())

    def _ask(self, path: str, content: bytes | None) -> tuple[int, str]:
        try:
            with self._opener.open(self.base + path, content) as answer:
                # A file of Parquet is no text.
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


async def test_pages_and_forms(
    any_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # The journal of balance.
    bootstrap = f"127.0.0.1:{any_broker.port}"
    with console_started(tmp_path, {"bootstrap.servers": bootstrap}) as console:
        browser = Browser(f"{console.url}/c/kafka")
        name, group = "of-the-console", "group-of-the-console"
        wanted = {"name": name, "partitions": "2", "factor": "1"}
        status, page = browser.send("/new-topic", **wanted, action="preview")
        assert (status, "Where the replicas go" in page) == (200, True)
        assignment = re.findall(r'name="assignment" value="([^"]+)"', page)[0]
        status, page = browser.send("/new-topic", **wanted, action="create", assignment=assignment)
        assert (status, f"Topic {name} was made" in page) == (200, True)
        status, page = browser.send(
            f"/topics/{name}/produce", value='{"n": 1}', value_format="json", key="k",
            partition="0",
        )  # fmt: skip
        assert (status, "Written to partition 0 at offset 0" in page) == (200, True)
        async with Consumer(
            name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            while not any((await consumer.poll(1000)).values()):
                pass
            await consumer.commit()
        broker = re.findall(r'/brokers/(\d+)"', browser.get("/brokers")[1])[0]
        for pattern in PAGES:
            path = pattern.format(topic=name, group=group, broker=broker)
            status, page = browser.get(path)
            assert status == 200, (path, page)
        status, page = browser.get(f"/topics/{name}/messages?start=key&key=k")
        if status != 200:
            assert "only Odradek" in page
        status, page = browser.get(f"/topics/{name}/messages?filter=value.n+%3D%3D+1")
        assert "1 record" in page
        plan = f"{name}:0:0"
        status, page = browser.send(f"/groups/{group}/reset", plan=plan)
        assert (status, "was moved in 1 partition" in page) == (200, True)
        status, page = browser.send(
            f"/topics/{name}/settings", setting="retention.ms", value="3600000", action="set"
        )
        assert "retention.ms is 3600000 now" in page
        _run_the_cluster(browser, broker)
        _clone(browser, name)
        status, page = browser.get("/access/why?principal=a&operation=READ&resource=CLUSTER")
        assert "Allowed" in page or "brokers explain this" in page
        assert (
            f"Group {group} was deleted"
            in browser.send(f"/groups/{group}/delete", confirm=group)[1]
        )
        assert "were deleted" in browser.send(f"/topics/{name}/purge", confirm=name)[1]
        assert (
            f"Topic {name} was deleted" in browser.send(f"/topics/{name}/delete", confirm=name)[1]
        )


def _run_the_cluster(browser: Browser, broker: str) -> None:
    """What changes brokers and where replicas are."""
    name = "log.cleaner.backoff.ms"
    status, page = browser.send("/brokers/settings", setting=name, value="14000", action="set")
    assert (status, f"All brokers: {name} is 14000 now" in page) == (200, True)
    status, page = browser.send("/brokers/settings", setting=name, value="", action="reset")
    assert "has its default again" in page
    url = f"/brokers/{broker}/loggers"
    logger = "kafka.request.logger"
    status, page = browser.send(url, logger=logger, level="ERROR", action="set", q=logger)
    assert (status, f"{logger} writes from ERROR on now" in page) == (200, True)
    status, page = browser.send(url, logger=logger, level="LOUD", action="set")
    assert (status, "Level: choose one" in page) == (400, True)
    status, page = browser.send(url, logger=logger, level="", action="reset", q=logger)
    assert (status, f"{logger} has the level of the start again" in page) == (200, True)
    status, page = browser.send("/balance", kind="balance", measure="0")
    assert (status, "Brokers, before and after" in page) == (200, True)
    status, page = browser.send("/balance", kind="demote-broker", brokers=broker)
    assert status in (200, 400)  # A single broker has nobody to lead in its place.
    status, page = browser.send("/balance/stop")
    assert "Nothing is being carried out" in page
    status, page = browser.send("/balance/leaders")
    assert (status, "There is nothing to elect" in page) == (400, True)


def _clone(browser: Browser, name: str) -> None:
    status, page = browser.send(f"/topics/{name}/clone", target=f"{name}-2", records="1")
    assert (status, f"is like {name} with 1 record" in page) == (200, True)
    assert (
        f"Topic {name}-2 was deleted"
        in browser.send(f"/topics/{name}-2/delete", confirm=f"{name}-2")[1]
    )
