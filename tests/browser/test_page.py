"""The page in a real browser: it loads without network, says what compare says, and leads down to the sample."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.world import HOSTILE, K, class_of
from tests.cli.command import offleash

api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: make test-browser installs it")

DOT = """() => {
  const view = document.querySelector('#figure-plane .chart').view;
  const find = (item) => {
    if (item.datum && Number.isInteger(item.datum.row) && item.mark?.marktype === 'symbol') return item;
    for (const child of item.items || []) { const found = find(child); if (found) return found; }
    return null;
  };
  const dot = find(view.scenegraph().root);
  const box = document.querySelector('#figure-plane .chart canvas, #figure-plane .chart svg').getBoundingClientRect();
  const [left, top] = view.origin();
  const padding = view.padding();
  return { x: box.x + padding.left + left + dot.x, y: box.y + padding.top + top + dot.y };
}"""


def count(page: Any, rows: int) -> None:
    """Wait until the table has so many rows."""
    api.expect(page.locator("#table tbody tr")).to_have_count(rows)


def test_the_page_loads_with_the_network_off_and_draws_every_figure(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        assert page.locator(".chart").count() == page.locator(".chart[data-drawn]").count() > 8
        assert "could not be drawn" not in page.inner_text("main")


def test_tiles_and_rates_equal_the_json_of_compare(opened: Open, report: Path, pair: tuple[Path, Path]) -> None:
    support: dict[str, Any] = offleash("compare", *pair, "--replicates", "200", "--json").json["support"]
    with opened(report.as_uri()) as page:
        for name in "PESO":
            assert float(page.get_attribute(f"[data-tile={name}]", "data-value")) == support[name]
            assert page.inner_text(f"[data-tile={name}]") == f"{support[name]:,}"
        for name in ("SRR", "NDR", "SDS", "NSCR"):
            assert float(page.get_attribute(f"[data-rate={name}]", "data-value")) == pytest.approx(support[name])
            low, high = support["interval"][name]
            assert page.inner_text(f"tr:has([data-rate={name}]) .interval") == f"[{low:.3f}, {high:.3f}]"


def test_hovering_a_dot_tells_its_problem_and_a_click_opens_it(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        page.locator("#figure-plane").scroll_into_view_if_needed()
        dot = page.evaluate(DOT)
        page.mouse.move(dot["x"], dot["y"])
        page.wait_for_selector("#tip:visible")
        told = re.search(r"problem (\d{3})", page.inner_text("#tip"))
        assert told is not None
        page.mouse.click(dot["x"], dot["y"])
        page.wait_for_selector(f"#problem-body[data-row='{int(told[1])}']")
        assert told[0] in page.inner_text("#problem-title")


def test_a_problem_shows_question_gold_answers_and_samples_of_both_runs(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        page.click("tr[data-row='1'] .open")  # class S: base alone reaches it
        page.wait_for_selector("#problem-body[data-row='1']")
        body = page.inner_text("#problem-body")
        assert "S lost" in body
        assert "7 <b>" in body
        assert f"correct: 5 of {K}" in page.inner_text(".side[data-run='0']")
        assert f"correct: 0 of {K}" in page.inner_text(".side[data-run='1']")
        assert page.locator(".side[data-run='0'] details.sample:has(.verdict-correct)").count() > 0
        assert page.locator(".side[data-run='1'] details.sample:has(.verdict-wrong)").count() > 0
        assert page.locator(".side[data-run='1'] details.sample:has(.verdict-unread)").count() > 0


def test_texts_are_folded_until_they_are_opened(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        page.click("tr[data-row='1'] .open")
        sample = page.locator("details.sample").first
        assert sample.locator("pre").count() == 0
        sample.locator("summary").click()
        api.expect(sample.locator("pre")).to_be_visible()  # the text is added by an event, which a busy machine delays
        assert "sample" in sample.locator("pre").inner_text()
        sample.locator("summary").click()
        assert not sample.locator("pre").is_visible()


def test_search_classes_and_sorting_choose_the_rows(opened: Open, report: Path) -> None:
    def rows() -> list[int]:
        found: list[int] = page.eval_on_selector_all(
            "#table tbody tr", "rows => rows.map(row => Number(row.dataset.row))"
        )
        return found

    with opened(report.as_uri()) as page:
        assert [class_of(row) for row in rows()] == sorted((class_of(r) for r in range(24)), key="SEPO".index)
        page.fill("#search", "problem 007")
        count(page, 1)
        assert rows() == [7]
        page.fill("#search", "SECOND problem")
        count(page, 12)
        page.fill("#search", "nothing like it")
        count(page, 0)
        page.fill("#search", "")
        count(page, 24)
        page.uncheck("[data-class=P]")
        assert {class_of(row) for row in rows()} == set("ESO")
        page.click("[data-sort=problem]")
        assert rows() == [row for row in range(24) if class_of(row) != "P"]
        page.click("[data-sort=problem]")
        assert rows()[0] == 23
        assert page.get_attribute("th:has([data-sort=problem])", "aria-sort") == "descending"


def test_the_keyboard_opens_walks_and_closes(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        page.locator("#table .open").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#problem[open]")
        title = page.locator("#problem-title")
        first = title.inner_text()
        page.keyboard.press("ArrowRight")
        api.expect(title).not_to_have_text(first)
        page.keyboard.press("ArrowLeft")
        api.expect(title).to_have_text(first)
        page.keyboard.press("Escape")
        page.wait_for_selector("#problem[open]", state="detached")
        assert page.evaluate("document.activeElement.className") == "open"


def test_hostile_text_is_shown_as_text(opened: Open, report: Path) -> None:
    shown = HOSTILE | {
        "direction": "abc [U+202E]gpj.exe[U+202C] [U+2067]x[U+2069] [U+200F]",
        "null": "before␀after ␛[31m ␇",
    }
    with opened(report.as_uri()) as page:
        for row, text in enumerate(shown.values()):
            page.click(f"tr[data-row='{row}'] .open")
            page.wait_for_selector(f"#problem-body[data-row='{row}']")
            assert text.split("\n")[0] in page.text_content("#problem-body pre")
            for sample in page.locator("details.sample summary").all():
                sample.click()
            assert page.locator("main script:not([type='application/json']), dialog script, img").count() == 0
            page.keyboard.press("Escape")
        assert page.title().endswith("offleash")


def test_dark_light_and_phone_fit_and_print_leaves_out_the_tools(opened: Open, report: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(report.as_uri(), color_scheme="dark") as page:
        grounds = [page.evaluate(ground)]
        for _ in range(2):
            page.click("#theme")
            page.wait_for_selector("html[data-charts=drawn]")
            grounds.append(page.evaluate(ground))
        assert grounds == [grounds[0], "rgb(255, 255, 255)", grounds[0]]
        assert grounds[0] != "rgb(255, 255, 255)"
    with opened(report.as_uri(), viewport={"width": 380, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#table .open >> nth=0")
        assert page.evaluate("document.querySelector('#problem-body').scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        page.emulate_media(media="print")
        assert not page.is_visible("#search")
        assert page.is_visible("#figure-plane")


def test_every_figure_has_a_text_and_every_control_a_name(opened: Open, report: Path) -> None:
    with opened(report.as_uri()) as page:
        texts = page.eval_on_selector_all("figure [role=img]", "all => all.map(one => one.getAttribute('aria-label'))")
        assert len(texts) == page.locator("figure").count()
        assert all(len(text) > 40 for text in texts)
        nameless = (
            "all => all.filter(one => !(one.innerText || one.getAttribute('aria-label') || one.labels?.length)).length"
        )
        assert page.eval_on_selector_all("button, input", nameless) == 0
