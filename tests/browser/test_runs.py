"""Several runs on one page: the selector changes tiles, tables, figures and samples, also without JavaScript."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open, write
from tests.browser.test_view import served
from tests.browser.world import make_run
from tests.cli.command import offleash

api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: make test-browser installs it")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """A base and two runs after it: one reaches what only it should, the other what both should."""
    folder = tmp_path_factory.mktemp("runs")
    return tuple(make_run(folder / name, kinds) for name, kinds in (("base", "PS"), ("grpo", "E"), ("dapo", "PE")))


@pytest.fixture(scope="module")
def page_of_all(browser: object, runs: tuple[Path, ...]) -> Path:
    return write(runs, runs[0].parent / "report.html")


@pytest.fixture(scope="module")
def comparisons(runs: tuple[Path, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = offleash("compare", *runs, "--replicates", "200", "--json").json["comparisons"]
    return found


def tiles(page: Any) -> dict[str, str]:
    return {name: page.locator(f"[data-tile={name}]:visible").inner_text() for name in "PESO"}


def test_choosing_a_run_shows_its_tiles_table_and_figures(
    opened: Open, page_of_all: Path, comparisons: list[dict[str, Any]]
) -> None:
    with opened(page_of_all.as_uri()) as page:
        assert page.locator("h1:visible").inner_text() == "base → dapo"  # the last one first
        for number, name in ((0, "grpo"), (1, "dapo"), (0, "grpo")):
            page.check(f"#run-{number}")
            page.wait_for_selector("html[data-charts=drawn]")
            assert page.locator("h1:visible").inner_text() == f"base → {name}"
            support = comparisons[number]["support"]
            assert tiles(page) == {cell: f"{support[cell]:,}" for cell in "PESO"}
            headline = page.locator(".headline:visible").inner_text()
            assert " ".join(headline.split()) == comparisons[number]["headline"]["text"]
            assert page.inner_text("th:has([data-sort=after])").startswith(name)
            classes = page.eval_on_selector_all("#table tbody tr", "rows => rows.map(row => row.cells[0].innerText[0])")
            assert sorted(classes) == sorted(problem["class"] for problem in comparisons[number]["problems"])
            shown = page.locator(".chart:visible")
            assert shown.count() == page.locator(".chart[data-drawn]:visible").count() > 8
            assert all(box.evaluate("box => box.querySelector('svg, canvas').clientWidth > 100") for box in shown.all())


def test_samples_are_those_of_the_chosen_run(opened: Open, page_of_all: Path) -> None:
    with opened(page_of_all.as_uri()) as page:
        for number, name in ((0, "grpo"), (1, "dapo")):
            page.check(f"#run-{number}")
            page.click("tr[data-row='0'] .open")
            page.wait_for_selector("#problem-body[data-row='0']")
            title = page.locator(".side[data-run='1'] h3").inner_text()
            assert title.startswith(name)
            counts = page.locator("tr[data-row='0'] td.n").nth(1).text_content()
            assert f"correct: {counts}" in title
            correct = page.locator(".side[data-run='1'] details.sample:has(.verdict-correct)").count()
            assert (correct > 0) == (not counts.startswith("0 of"))
            page.keyboard.press("Escape")


def test_the_keyboard_chooses_a_run(opened: Open, page_of_all: Path) -> None:
    with opened(page_of_all.as_uri()) as page:
        page.focus("#run-1")
        page.keyboard.press("ArrowLeft")
        assert page.is_checked("#run-0")
        assert page.locator("h1:visible").inner_text() == "base → grpo"
        assert page.inner_text("th:has([data-sort=after])").startswith("grpo")


def test_without_javascript_the_selector_still_works(browser: Any, page_of_all: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_of_all.as_uri())
    assert page.locator("h1:visible").inner_text() == "base → dapo"
    page.check("#run-0")
    assert page.locator("h1:visible").inner_text() == "base → grpo"
    assert page.locator(".tiles:visible").count() == 1
    context.close()


def test_print_and_phone_show_the_chosen_run(opened: Open, page_of_all: Path) -> None:
    with opened(page_of_all.as_uri(), viewport={"width": 380, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.check("#run-0")
        page.emulate_media(media="print")
        assert not page.is_visible(".selector")
        assert page.locator("h1:visible").all_inner_texts() == ["base → grpo"]
        assert page.is_visible(".leaderboard")


def test_the_leaderboard_and_the_figure_of_all_runs_are_on_the_page(
    opened: Open, page_of_all: Path, comparisons: list[dict[str, Any]]
) -> None:
    with opened(page_of_all.as_uri()) as page:
        rows = page.locator(".leaderboard tbody tr")
        assert rows.locator("th").all_inner_texts() == ["base", "grpo", "dapo"]
        for number in range(2):
            cells = rows.nth(number + 1).locator("td").all_inner_texts()
            support = comparisons[number]["support"]
            low, high = support["interval"]["SRR"]
            assert cells[2] == f"{support['SRR']:.3f}\n[{low:.3f}, {high:.3f}]"
            assert cells[3] == f"{support['redraw']['SRR']:.3f}"
        text = page.get_attribute("#figure-passes-all [role=img]", "aria-label")
        assert text.startswith("3 curves of pass@k")
        assert page.locator("#figure-passes-all .chart[data-drawn]").count() == 1
        assert page.locator("[id]").evaluate_all("all => all.length - new Set(all.map(one => one.id)).size") == 0


def test_the_server_sends_the_samples_of_the_chosen_run(opened: Open, runs: tuple[Path, ...]) -> None:
    with served(*runs) as url, opened(url, offline=False) as page:
        page.check("#run-0")
        page.click("tr[data-row='0'] .open")
        page.wait_for_selector(".side[data-run='1'] details.sample")
        assert page.locator(".side[data-run='1'] h3").inner_text().startswith("grpo")
        shown = page.locator(".side[data-run='1'] .kinds button[data-verdict=correct]").count()
        counts = page.locator("tr[data-row='0'] td.n").nth(1).text_content()
        assert (shown > 0) == (not counts.startswith("0 of"))
