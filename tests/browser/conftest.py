"""A real browser: Chromium driven by Playwright; the tests are skipped where either is missing (make test-browser)."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.world import make_pair
from tests.cli.command import offleash

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine: make test-browser installs it")
    play = pytest.importorskip("playwright.sync_api", reason="no Playwright here: make test-browser installs it")
    with play.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser: "Browser") -> Open:
    """Opens a page, waits for its figures, and afterwards refuses any error, request or script that should not be."""

    @contextmanager
    def open_(address: str, offline: bool = True, **options: Any) -> "Iterator[Page]":
        troubles: list[str] = []
        asked: list[str] = []
        usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(offline=offline, **(usual | options))
        page = context.new_page()
        page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-charts=drawn]", timeout=60_000)
        yield page
        assert page.evaluate("window.ran") is None, "text of a model was run"
        context.close()
        assert troubles == []
        own = address.split("#")[0]
        assert [url for url in asked if not url.startswith((own, "data:", "blob:"))] == []

    return open_


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def report(browser: "Browser", pair: tuple[Path, Path]) -> Path:
    """The page of the pair."""
    return write(pair, pair[0].parent / "report.html")


def write(runs: tuple[Path, ...], path: Path, *options: str) -> Path:
    done = offleash("report", *runs, "-o", path, "--replicates", "200", *options)
    assert done.code == 0, done.err
    return path
