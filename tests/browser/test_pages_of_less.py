"""Pages of what lacks something: counts alone, logs, a huge text, several checkpoints."""

from pathlib import Path

from tests.browser.conftest import Open, write
from tests.browser.world import make_pair, make_run
from tests.cli.command import offleash
from tests.places import ROOT


def test_counts_alone_make_a_page_that_says_what_is_missing(opened: Open, tmp_path: Path) -> None:
    counts = ROOT / "examples" / "counts"
    path = write((counts / "base.csv", counts / "rl.csv"), tmp_path / "report.html")
    with opened(path.as_uri()) as page:
        assert "counts only" in page.inner_text("#held")
        assert page.locator("#table tbody tr").count() == 60
        page.click("#table .open >> nth=0")
        assert "no samples to show" in page.inner_text("#problem-body")
        page.keyboard.press("Escape")
        page.click("details.notes summary >> nth=-1")
        assert "cannot be drawn" in page.inner_text("#figures")


def test_a_text_of_five_million_letters_is_cut_in_the_page_and_said_to_be(opened: Open, tmp_path: Path) -> None:
    path = write(make_pair(tmp_path, problems=4, long=5_000_000), tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    with opened(path.as_uri()) as page:
        page.click("tr[data-row='3'] .open")
        for sample in page.locator("details.sample summary").all():
            sample.click()
        assert "characters left out; offleash view shows them" in page.inner_text("#problem-body")
        assert "the end" in page.inner_text("#problem-body")


def test_checkpoints_stand_in_a_table_and_a_figure(opened: Open, pair: tuple[Path, Path], tmp_path: Path) -> None:
    later = make_run(tmp_path / "later", "E")
    path = write((*pair, later), tmp_path / "report.html", "--runs-are", "checkpoints")
    with opened(path.as_uri()) as page:
        assert "union of 2" in page.inner_text("section:has(#steps-title)")
        assert page.locator("#figure-checkpoints .chart[data-drawn]").count() > 0


def test_the_page_of_a_log_shows_its_samples(opened: Open, tmp_path: Path) -> None:
    folder = ROOT / "tests" / "logs" / "fixtures" / "verifiers"
    done = offleash(
        "report", f"base={folder / 'results.jsonl'}", f"rl={folder / 'traces.jsonl'}", "-o", tmp_path / "report.html"
    )
    assert done.code == 0, done.err
    with opened((tmp_path / "report.html").as_uri()) as page:
        page.click("#table .open >> nth=0")
        page.locator("details.sample summary").first.click()
        assert page.locator("details.sample pre").first.inner_text() == "5"
