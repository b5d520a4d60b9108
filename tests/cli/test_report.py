"""offleash report as a user types it: formats, places, and what is refused."""

import json
import os
from html import unescape
from pathlib import Path

import pytest

from tests.browser.world import make_pair, make_run
from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

FEW = ("--replicates", "200")
COUNTS = EXAMPLES / "counts"
TWO = (COUNTS / "base.csv", COUNTS / "rl.csv")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_pair(tmp_path_factory.mktemp("pair"))


def test_a_page_is_one_file_with_nothing_to_load(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = offleash("report", *pair, "-o", tmp_path / "made" / "report.html", *FEW, "--json")
    assert done.code == 0, done.err
    text = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert done.json["bytes"] == len(text.encode()) < 5_000_000
    assert "default-src 'none'" in unescape(text)
    for address in (' src="', ' href="http', "@import", "url("):
        assert address not in text.partition("<script>")[0]


def test_the_page_names_the_command_that_made_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert offleash("report", *TWO, "-o", path, *FEW).code == 0
    assert f"offleash report {TWO[0]} {TWO[1]} -o {path} --replicates 200" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "begins"), [("summary.md", "## From"), ("rows.tex", "% model")])
def test_the_ending_of_the_file_says_the_format(name: str, begins: str, tmp_path: Path) -> None:
    assert offleash("report", *TWO, "-o", tmp_path / name, *FEW).code == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_markdown_and_latex_go_to_the_screen_without_a_file() -> None:
    assert offleash("report", *TWO, "--format", "md", *FEW).out.startswith("## From")
    rows = offleash("report", *TWO, "--format", "latex", "--intervals", *FEW).out
    assert "scriptsize" in rows
    told = json.loads(offleash("report", *TWO, "--format", "latex", *FEW, "--json").out)
    assert told["format"] == "latex"
    assert "Overall" in told["text"]


def test_compare_writes_the_same_page(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = offleash("compare", *pair, "--report", tmp_path / "report.html", *FEW)
    assert done.code == 0, done.err
    assert f"Report: {tmp_path / 'report.html'}" in done.out
    assert 'data-tile="S" data-value="6"' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_cannot_be_reported_is_refused_with_the_next_step(pair: tuple[Path, Path], tmp_path: Path) -> None:
    refused(offleash("report", pair[0], "-o", tmp_path / "r.html"), "two runs", "found 1")
    refused(offleash("report", *TWO, "--format", "htlm"), "htlm", "html")
    refused(offleash("report", *TWO, "-o", tmp_path / "r.docx"), ".docx", ".html")
    refused(offleash("report", *TWO, "-o", tmp_path), "folder", "report.html")
    refused(offleash("report", *TWO, "-o", pair[0] / "run.json" / "r.html"), "is a file")
    refused(offleash("report", *TWO, "-o", "/proc/nowhere/r.html"), "cannot be written")


def test_runs_without_common_problems_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("problem,n,c\nx,4,1\n")
    (tmp_path / "b.csv").write_text("problem,n,c\ny,4,1\n")
    done = offleash("report", tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "r.html")
    refused(done, "no problem")
    assert not (tmp_path / "r.html").exists()


def test_a_page_that_stands_there_stays_when_the_next_one_fails(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    refused(offleash("report", pair[0], tmp_path / "missing", "-o", path), "missing")
    assert path.read_text() == "old"


def test_per_solution_and_other_rules_have_a_page_too(tmp_path: Path) -> None:
    runs = (make_run(tmp_path / "base", "PS", k=64), make_run(tmp_path / "rl", "PE", k=64))
    for number, options in enumerate((["--per", "answer"], ["--rule", "confident"], ["--unread", "drop"])):
        done = offleash("report", *runs, "-o", tmp_path / f"{number}.html", *FEW, *options)
        assert done.code == 0, done.err


def test_a_link_keeps_its_target_and_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    assert offleash("report", *TWO, "-o", tmp_path / "link.html", *FEW).code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    os.mkfifo(tmp_path / "pipe.html")
    refused(offleash("report", *TWO, "-o", tmp_path / "pipe.html"), "pipe or a device")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "pipe.html", "target.html"]


def test_logs_with_an_equals_sign_in_their_names_are_read(tmp_path: Path) -> None:
    rows = [{"problem": f"p{i}", "text": f"text {i}", "answer": "1", "correct": i % 2 == 0} for i in range(4)]
    for name in ("lr=1", "lr=2"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = offleash("report", tmp_path / "lr=1.jsonl", tmp_path / "lr=2.jsonl", "-o", tmp_path / "r.html", *FEW)
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "lr=1" in page
    assert "text 3" in page


def test_a_smaller_k_is_explained_beside_the_tiles_and_in_the_table(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert offleash("report", *pair, "--at", "4", "-o", tmp_path / "r.html", *FEW).code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "averages over all subsets of k of them" in page
    about = json.loads(page.partition('id="about">')[2].partition("</script>")[0])
    assert about["k"] == 4
    assert "use all samples of each run" in page
    assert about["problems"]["drawn"][0] > 4


def test_dropping_unread_samples_keeps_the_texts_of_the_others(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert offleash("report", *pair, "--unread", "drop", "-o", tmp_path / "r.html", *FEW).code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "sample 0 of 1" in page
    assert "not read" not in page.partition('id="held">')[2].partition("</p>")[0]


def test_compare_refuses_a_page_of_another_ending(tmp_path: Path) -> None:
    refused(offleash("compare", *TWO, "--report", tmp_path / "summary.md"), ".md", ".html")


def test_checkpoints_per_answer_have_no_pass_at_k_and_no_union(pair: tuple[Path, Path], tmp_path: Path) -> None:
    later = make_run(tmp_path / "later", "E")
    done = offleash(
        "report", *pair, later, "--runs-are", "checkpoints", "--per", "answer", "-o", tmp_path / "r.html", *FEW
    )
    assert done.code == 0, done.err
    table = (tmp_path / "r.html").read_text(encoding="utf-8").partition("steps-title")[2].partition("</table>")[0]
    assert "union of 2" not in table
    assert "pass@" not in table


def test_intervals_are_for_latex_alone() -> None:
    for options in (["--format", "md"], []):
        refused(offleash("report", *TWO, *options, "--intervals"), "--intervals", "--format latex")


def test_a_smaller_k_is_possible_with_every_rule_per_answer(pair: tuple[Path, Path]) -> None:
    for rule in ("seen", "above", "confident"):
        result = offleash("compare", *pair, "--rule", rule, "--per", "answer", "--at", "4", *FEW, "--json")
        assert (result.code, result.json["support"]["k"]) == (0, 4), result.err
