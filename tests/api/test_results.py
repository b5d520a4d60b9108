"""Results and inputs at their edges: nothing given, folders that go, names in memory, what a file can hold."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest

import offleash as ol
from offleash.reporting.comparison import document
from tests.api.test_journey import logs
from tests.api.test_options import both
from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

PROBLEMS, SUMS = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")
ONE = ol.Judging(jobs=1, cache=False)


@pytest.mark.parametrize("verb", ["fsck", "verify", "nucleus", "compare", "entropy"])
def test_a_verb_without_what_it_works_on_is_refused(verb: str) -> None:
    assert f"{verb} needs " in both(verb, (), lambda: getattr(ol, verb)())


def test_a_comparison_keeps_the_copies_of_its_logs_also_without_its_result(tmp_path: Path) -> None:
    comparison = ol.compare(*logs(tmp_path), verifier="math", judging=ONE, replicates=200).comparison
    gc.collect()
    result: Any = document([comparison])
    assert result["support"]["P"] == 1


def test_flips_name_what_the_user_named_and_not_a_copy(tmp_path: Path) -> None:
    pair = logs(tmp_path, verdicts=True)
    plain = ol.compare(*pair, flips=True, replicates=200).to_dict()
    with_page = ol.compare(*pair, flips=True, replicates=200, report=tmp_path / "page.html").to_dict()
    assert with_page["flips"] == plain["flips"]


def test_a_run_in_memory_is_not_taken_for_a_folder_of_the_same_name(tmp_path: Path) -> None:
    for place, seed in (("base", 0), ("other/base", 1)):
        run = ol.draw(PROBLEMS, SUMS, k=8, out=tmp_path / place, seed=seed).folder
        ol.verify(run, also=["string"], judging=ONE)
    stored = next((tmp_path / "base" / "verdicts").glob("mixed*")).name
    loaded = ol.load(tmp_path / "base", verdicts=stored)
    result = ol.compare(loaded, tmp_path / "other" / "base", verdicts=stored, flips=True, replicates=200)
    assert (result.change.before, result.change.after) == ("base", "base#2")
    assert "base#2 is no run folder" not in json.dumps(result.to_dict())


def test_a_study_compares_by_the_verdicts_that_it_made(tmp_path: Path) -> None:
    words = {"k": 8, "out": tmp_path / "study", "judging": ONE}
    ol.study(PROBLEMS, SUMS, SUMS, **words)  # type: ignore[arg-type]
    problems = tmp_path / "math.jsonl"
    ol.problem_set(PROBLEMS).save(problems)
    second = ol.study(problems, SUMS, SUMS, verifier="string", **words)  # type: ignore[arg-type]
    assert second.comparison.before.verifier is not None
    assert second.comparison.before.verifier.startswith("string@")
    assert second.report is not None


def test_a_dry_run_says_what_it_would_cost_and_can_be_saved(tmp_path: Path) -> None:
    dry = ol.study(PROBLEMS, SUMS, SUMS, k=8, out=tmp_path / "none", dry_run=True)
    assert "samples" in repr(dry)
    assert json.loads(dry.save(tmp_path / "cost.json").read_text()) == dry.to_dict()
    with pytest.raises(ol.OffleashError, match="dry run"):
        _ = dry.comparison


def test_rows_with_a_bad_gold_answer_do_not_lose_the_others(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text((EXAMPLES / "rows.jsonl").read_text() + '{"id": "bad", "gold": "", "text": "1"}\n')
    result = ol.verify(rows, verifier="math", judging=ONE)
    assert not result.ok
    assert len(result.rows) == len(rows.read_text().splitlines())
    shown = offleash("verify", rows, "--verifier", "math", "--jobs", "1")
    refused(shown, "'bad'")
    assert "rows:" in shown.out
    assert json.loads(result.save(tmp_path / "v.json").read_text()) == result.to_dict()
    assert len(result.save(tmp_path / "v.jsonl").read_text().splitlines()) == len(result.rows)


def test_results_compare_hash_and_refuse_like_the_verbs(tmp_path: Path) -> None:
    first, second = ol.problem_set(PROBLEMS), ol.problem_set(PROBLEMS)
    assert first != second
    assert len({first, second}) == 2
    result = ol.compare(*COUNTS, replicates=200, allow=None, columns=None)  # type: ignore[arg-type, call-arg]
    with pytest.raises(ol.OffleashError, match="150 to 4,000 pixels"):
        result.figure("plane", width=10)
    with pytest.raises(ol.OffleashError, match="no report format 'pdf'"):
        result.save(tmp_path / "x.html", format="pdf")
    report = ol.report(*COUNTS, format="md", replicates=200)
    assert report.save(tmp_path / "again.md").read_text() == report.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--at", "16,64"), "Found --at 16,64."),
        (("--at", "9" * 400), "--at"),
        (("--tau", "1e999"), "Found --tau inf."),
        (("--colums", "a=b"), "Did you mean '--map'?"),
        (("--repl", "200"), "Did you mean '--replicates'?"),
        (("--verifier", "mixed"), "For stored verdicts use --verdicts NAME."),
        (("--verifer", "math"), "Did you mean '--verifier'?"),
    ],
)
def test_what_is_typed_wrong_is_answered_with_the_next_step(words: tuple[str, ...], message: str) -> None:
    refused(offleash("compare", *COUNTS, *words), message)


def test_verbs_are_called_as_they_are_typed() -> None:
    refused(offleash("import", COUNTS[0]), "import needs --out.")
    refused(offleash("lab", "problms"), "Did you mean 'problems'?")
    refused(offleash("verify", EXAMPLES, "--problems", "humanevl", "--verifier", "maths"), "Did you mean 'math'?")
    assert "sweep PROBLEMS MODEL [MODEL2] [OPTIONS]" in offleash("sweep", "--help").out
    assert "[default: 0]" in offleash("theory", "--help").out
    likelihood = offleash("likelihood", "--help").out
    assert "[default: plain]" not in likelihood
