"""`offleash view` in a real browser: every sample, a few at a time, and nothing of it run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import offleash as ol
from tests.browser.conftest import Open
from tests.browser.world import HOSTILE, make_pair

api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: make test-browser installs it")
MANY, LONG = 16_384, 5_000_000


@contextmanager
def served(*runs: Path | str) -> Iterator[str]:
    """The address of a server over some runs, as a user starts it."""
    command = [sys.executable, "-m", "offleash", "view", *map(str, runs), "--json", "--replicates", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.fixture(scope="module")
def many(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two problems of 16,384 samples, one text of five million letters in each."""
    with served(*make_pair(tmp_path_factory.mktemp("many"), problems=2, k=MANY, long=LONG)) as url:
        yield url


def test_a_problem_of_16384_samples_comes_a_few_at_a_time(opened: Open, many: str) -> None:
    with opened(many, offline=False) as page:
        answers: list[str] = []
        page.on("response", lambda reply: answers.append(reply.url) if "/api/samples" in reply.url else None)
        page.click("tr[data-row='1'] .open")
        side = page.locator(".side[data-run='0']")
        api.expect(side.locator("details.sample").first).to_be_attached()
        page.wait_for_timeout(500)
        first = side.locator("details.sample").count()
        assert 20 <= first <= 80
        for _ in range(5):
            page.locator("#problem-body").evaluate("body => body.scrollTo(0, body.scrollHeight)")
            page.wait_for_timeout(250)
        assert first < side.locator("details.sample").count() < 1000
        assert f"of {MANY:,} samples" in side.inner_text()
        assert 2 < len(answers) < 60


def test_a_verdict_can_be_chosen_and_a_long_text_read_on(opened: Open, many: str) -> None:
    with opened(many, offline=False) as page:
        page.click("tr[data-row='1'] .open")
        side = page.locator(".side[data-run='0']")
        side.locator("button[data-verdict=correct]").click()
        api.expect(side.locator("details.sample")).to_have_count(5)
        api.expect(side.locator(".verdict-wrong")).to_have_count(side.locator(".answers .verdict-wrong").count())
        side.locator("button[data-verdict=wrong]").click()
        sample = side.locator("details.sample[data-index='5']")
        sample.locator("summary").click()
        before = len(sample.locator("pre").inner_text())
        assert before < 10_000
        sample.locator("button").click()
        page.wait_for_timeout(500)
        assert len(sample.locator("pre").inner_text()) > before + 50_000


def test_a_tall_window_is_filled_and_quick_clicks_bring_no_sample_twice(opened: Open, many: str) -> None:
    with opened(many, offline=False, viewport={"width": 1400, "height": 2400}) as page:
        page.click("tr[data-row='1'] .open")
        side = page.locator(".side[data-run='1']")
        api.expect(side.locator("details.sample").nth(39)).to_be_attached()
        for verdict in ("wrong", "all", "wrong", "all"):
            side.locator(f"button[data-verdict={verdict}]").click()
        page.wait_for_timeout(800)
        indices = side.locator("details.sample").evaluate_all("all => all.map(one => one.dataset.index)")
        assert len(indices) == len(set(indices)) >= 40


def test_hostile_texts_are_shown_as_text_by_the_server_too(opened: Open, many: str) -> None:
    with opened(many, offline=False) as page:
        page.click("tr[data-row='0'] .open")
        page.wait_for_selector("#problem-body[data-row='0'] details.sample")
        for line in page.locator("details.sample summary").all()[: len(HOSTILE)]:
            line.click()
        shown = page.locator("details.sample pre").all_text_contents()
        assert any("<script>document.title" in text for text in shown)
        assert any("before␀after" in text for text in shown)
        assert page.locator("main script:not([type='application/json']), dialog script, img").count() == 0


def test_the_page_opens_at_the_problem_that_was_named(opened: Open, tmp_path: Path) -> None:
    runs = make_pair(tmp_path)
    name = sorted(run_problems(runs[0]))[5]
    with served(*runs, "--problem", name) as url:
        assert url.endswith("#problem=5")
        with opened(url, offline=False) as page:
            page.wait_for_selector("#problem-body[data-row='5'] details.sample")
            assert page.locator("#problem").evaluate("dialog => dialog.open")
            page.keyboard.press("Escape")
            page.evaluate("location.hash = '#problem=7'")
            page.wait_for_selector("#problem-body[data-row='7']")
        with opened(url.partition("#")[0] + "#problem=999", offline=False) as page:
            assert not page.locator("#problem").evaluate("dialog => dialog.open")


def run_problems(folder: Path) -> list[str]:
    """The ids of the problems of a run."""
    return ol.load(folder).problems["problem"].to_list()
