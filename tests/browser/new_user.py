"""Somebody who opens the console for the first time: does what the visible labels say, and nothing
by an address, a name for screen readers alone, or an element that only a programmer sees."""

import re

from playwright.sync_api import Locator, Page, expect


class NewUser:
    """`actions` has what was done: each link, button, field and choice is one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions: list[str] = []

    def follow(self, link: str) -> None:
        self._press("a", link)

    def press(self, button: str) -> None:
        self._press("button", button)

    def fill(self, label: str, text: str) -> None:
        self._field(label).fill(text)
        self.actions.append(f"{label}: {text}")

    def choose(self, label: str, option: str) -> None:
        self._field(label).select_option(label=option)
        self.actions.append(f"{label}: {option}")

    def _press(self, element: str, words: str) -> None:
        found = self._shown(element, words)
        expect(found).to_have_count(1)
        found.click()
        self.actions.append(words)

    def _field(self, label: str) -> Locator:
        found = self._shown("label", label)
        expect(found).to_have_count(1)
        return self.page.locator(f"[id='{found.get_attribute('for')}']")

    def _shown(self, element: str, words: str) -> Locator:
        """Returns the elements with exactly this text, of those that can be seen. A row of a list
        may have a button with the same text as a form: of these the form's, a whole button."""
        whole = re.compile(rf"^\s*{re.escape(words)}\s*$")
        return self.page.locator(f"{element}:visible:not(.plain)", has_text=whole)
