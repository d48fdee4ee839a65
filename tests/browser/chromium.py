"""A real browser for tests: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.broker_process import ToolMissing

AXE = Path(__file__).parent / "axe" / "axe.min.js"


def chromium() -> str:
    """Returns the path of the browser."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    raise ToolMissing("Chromium is missing: apt-get install chromium")


@contextmanager
def browser_started(path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # A container's root may not make the sandbox; the pages are our own.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=path, args=[*options, "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A browser of its own with one page, and everything that went wrong in it: errors of scripts,
    and what the content policy stopped."""

    def __init__(self, browser: Browser, base: str, **options: Any) -> None:
        self.base = base
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(15_000)
        self.context.add_init_script(path=str(AXE))
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog {dialog.message}"))

    def _note(self, message: Any) -> None:
        # A page with status 4xx is an answer and no defect of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def go(self, path: str, status: int = 200) -> Page:
        answer = self.page.goto(self.base + path, wait_until="load")
        assert answer is not None
        assert answer.status == status, (path, answer.status, self.page.inner_text("main"))
        return self.page

    def axe(self, rules: tuple[str, ...] = ()) -> list[str]:
        """Returns the serious and critical findings about the page."""
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{one['id']}: {node['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def close(self) -> None:
        self.context.close()
