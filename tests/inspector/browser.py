"""The installed Chromium with the inspector page open, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page, Route, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MILLISECONDS = 60_000
"""For every step: the machine may be busy."""

needs_browser = [
    pytest.mark.interop,
    pytest.mark.timeout(280),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
]


@dataclass
class OpenPage:
    """A page, and everything that it did that a hostile recording would like to do."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    dialogs: list[str] = field(default_factory=list[str])

    def on_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def rows(self) -> list[str]:
        return self.page.locator(".row").all_inner_texts()

    def status(self) -> str:
        return self.page.locator(".bottom [role=status]").inner_text()

    def wait_for_status(self, text: str) -> None:
        self.page.wait_for_function(
            "text => document.querySelector('.bottom [role=status]')?.textContent === text", arg=text
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@contextmanager
def browser_page(url: str, *, ready: str = ".row, .panel, .alert", **context: Any) -> Generator[OpenPage]:
    """Open a URL in a new browser; a request to anything but this URL is recorded, and cut off."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=MILLISECONDS)
        try:
            options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, **context}
            page = browser.new_context(**options).new_page()
            page.set_default_timeout(MILLISECONDS)
            opened = OpenPage(page)
            base = url.partition("#")[0]

            def route(route: Route) -> None:
                wanted = route.request.url
                if wanted == base or (base.startswith("http") and wanted.startswith(base)):
                    route.continue_()
                else:
                    opened.requests.append(wanted)
                    route.abort()

            page.route("**", route)
            page.on("pageerror", lambda error: opened.errors.append(str(error)))
            page.on("console", lambda entry: opened.errors.append(entry.text) if entry.type == "error" else None)
            page.on("dialog", opened.on_dialog)
            page.goto(url)
            page.wait_for_selector(ready)
            yield opened
        finally:
            browser.close()
