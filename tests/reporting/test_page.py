"""The parts of the page without a browser: what is escaped, what is held, what chance would give, and contrast."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offleash
from offleash.comparing.compare import Comparison
from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.comparing.sentences import redraw_rates
from offleash.render.escape import script_json, show_control_characters, single_line
from offleash.render.page import own_script, style
from offleash.reporting.figures import subject
from offleash.reporting.page.problems import embed_problems, reading_order
from offleash.reporting.page.tiles import rates, tiles
from offleash.reporting.samples import SampleStore
from tests.browser.world import class_of, make_pair


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    runs = make_pair(tmp_path_factory.mktemp("page"))
    return compare_inputs([str(run) for run in runs], question=question(replicates=200))[0][0]


class Blocks(HTMLParser):
    """What an HTML parser takes for the inside of a script, and what it takes for tags after it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


@given(st.text())
def test_no_text_ends_a_script_block_or_changes_in_it(text: str) -> None:
    import json

    block = script_json({"text": text})
    assert json.loads(block) == {"text": text}
    parser = Blocks()
    parser.feed(f"<script type='application/json'>{block}</script><p>")
    assert parser.tags == ["script", "p"]


@given(st.text())
def test_what_cannot_be_seen_is_made_visible(text: str) -> None:
    shown = show_control_characters(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)
    assert "\n" not in single_line(text, 40)


def test_the_classes_of_problems_are_those_of_the_tiles(one: Comparison) -> None:
    classes = subject([one]).detail.class_P
    assert [str(name) for name in classes] == [class_of(row) for row in range(24)]
    assert [(tile.name, tile.exact) for tile in tiles(one)] == [(name, 6) for name in "PESO"]


def test_rates_of_an_unchanged_model_are_those_of_the_table_that_the_exchange_null_expects(one: Comparison) -> None:
    null, by_chance = one.evidence.null, redraw_rates(one.change)
    assert null is not None
    kept = 18 - null.expected_E - null.expected_S
    assert by_chance["SRR"] == pytest.approx(kept / (kept + null.expected_S))
    assert by_chance["NSCR"] == pytest.approx((null.expected_E - null.expected_S) / 18)
    assert all(rate.left <= rate.at <= rate.left + rate.width for rate in rates(one))


def test_an_unchanged_model_is_marked_under_every_rule(tmp_path: Path) -> None:
    for name, correct in (("a", 8), ("b", 0)):
        lines = "".join(f"p{i},100,{correct}\n" for i in range(50))
        (tmp_path / f"{name}.csv").write_text("problem,n,c\n" + lines)
    runs = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    above = compare_inputs(runs, question=question("above", tau=0.05, replicates=200))[0][0]
    # 8 of 200 in all, at most 8 in either half: at least 5 in both halves has chance 0, in one half alone 0.48
    assert redraw_rates(above.change)["SRR"] == pytest.approx(0.0, abs=0.01)
    seen = compare_inputs(runs, question=question(replicates=200))[0][0]
    assert redraw_rates(seen.change)["SRR"] == pytest.approx(1.0, abs=0.01)


def test_a_full_page_holds_lost_and_found_problems_first(one: Comparison) -> None:
    detail = subject([one]).detail
    changed, others = reading_order(detail)
    assert [sorted({class_of(row) for row in rows}) for rows in (changed, others)] == [["E", "S"], ["O", "P"]]
    assert len(changed) == len(others) == 12
    few = embed_problems(detail, SampleStore(one), max_bytes=20_000)
    held = {class_of(row) for row in few.documents}
    assert held & {"E", "S"}
    assert held & {"P", "O"}, "a fifth is kept for problems that did not change"
    assert 0 < len(few.documents) < 24
    assert sum(len(text.encode()) for text in few.documents.values()) <= 20_000
    assert f"includes {len(few.documents)} of 24 problems" in few.words
    assert "All 24 problems" in embed_problems(detail, SampleStore(one)).words


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_every_colour_of_text_has_a_contrast_of_at_least_4_5(theme: int) -> None:
    block = re.findall(r"\{[^{}]*--ground:[^{}]*\}", style())[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    grounds = [luminance(colours[name]) for name in ("ground", "raised")]
    for name in ("ink", "quiet", "accent", "P", "E", "S", "O", "before", "after", "correct", "wrong", "unread"):
        for ground in grounds:
            light, dark = sorted((luminance(colours[name]), ground), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, name


def test_the_script_of_the_page_makes_no_markup_of_text() -> None:
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert forbidden not in own_script()


def test_results_show_themselves_in_a_notebook_with_names_escaped() -> None:
    counts = offleash.tally_of_counts([[8, 8]] * 3, [[1, 8], [3, 0], [0, 0]], runs=("<b>base</b>", "rl"))
    change = offleash.support_change(counts, "<b>base</b>", "rl", replicates=200)
    html = change._repr_html_() or ""
    assert "&lt;b&gt;base&lt;/b&gt;" in html
    assert "<b>base" not in html
    assert "pass@k" in (offleash.pass_curve(counts, replicates=200)._repr_html_() or "")


def test_a_comparison_shows_its_finding_and_gives_its_figures(one: Comparison, tmp_path: Path) -> None:
    result = offleash.compare(one.before, one.after, replicates=200)
    assert result.finding in unescape(result._repr_html_() or "")
    chart = result.figure("plane").chart
    assert chart.to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    path = result.save(tmp_path / "report.html")
    assert path.stat().st_size > 900_000
    with pytest.raises(offleash.OffleashError, match="plane"):
        result.figure("plain")
