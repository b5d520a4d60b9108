"""A notebook from logs to a page, without the command line; and what results can do."""

import gc
import json
from html import unescape
from pathlib import Path

import polars as pl
import pytest

import offleash as ol
from tests.places import EXAMPLES

COUNTS = EXAMPLES / "counts"


def logs(folder: Path, verdicts: bool = False) -> tuple[Path, Path]:
    """Two logs of three problems; the second run answers one of them more and one less."""
    gold, paths = {"a": "4", "b": "7", "c": "9"}, []
    for name, answers in (("base", {"a": "4", "b": "7", "c": "1"}), ("rl", {"a": "4", "b": "8", "c": "9"})):
        rows = [
            {
                "id": key,
                "question": f"{key}?",
                "gold": gold[key],
                "response": f"{name} thinks \\boxed{{{answers[key]}}}",
            }
            | ({"correct": answers[key] == gold[key]} if verdicts else {})
            for key in gold
            for _ in range(8)
        ]
        paths.append(folder / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths[0], paths[1]


def test_from_logs_to_a_page_with_their_texts(tmp_path: Path) -> None:
    base, rl = logs(tmp_path)
    seen: list[str] = []
    result = ol.compare(base, rl, verifier="math", judging=ol.Judging(jobs=1, cache=False), progress=seen.append)
    assert (result.change.P, result.change.E, result.change.S) == (1, 1, 1)
    assert [item.verified.verdicts["correct"] for item in result.verified] == [16, 16]
    assert any("samples judged" in text for text in seen)
    page = result.save(tmp_path / "report.html").read_text()
    assert "rl thinks" in page, "the texts of the samples are on the page"
    scratch = result.inputs.scratch.path
    assert scratch.is_dir()
    del result
    gc.collect()
    assert not scratch.exists(), "the copies of the logs go with the result"


def test_a_page_can_be_saved_of_logs_that_were_compared_by_their_own_verdicts(tmp_path: Path) -> None:
    pair = logs(tmp_path, verdicts=True)
    result = ol.compare(*pair, replicates=200)
    before = result.to_dict()
    page = result.save(tmp_path / "report.html").read_text()
    assert result.to_dict() == before
    assert "base thinks" in page
    assert "rl thinks" in page
    other = ol.report(*pair, out=tmp_path / "other.html", replicates=200)
    assert other.path is not None
    assert other.text == page
    for name, begins in (("r.md", "##"), ("r.tex", "% model & domain"), ("r.json", "{"), ("r.txt", "base")):
        assert result.save(tmp_path / name).read_text().startswith(begins)
    with pytest.raises(ol.OffleashError, match=r"report.doc ends in '.doc'"):
        result.save(tmp_path / "report.doc")


def test_frames_and_loaded_runs_are_compared_like_their_files() -> None:
    paths = [COUNTS / "base.csv", COUNTS / "rl.csv"]
    of_files = ol.compare(*paths, replicates=200)
    of_frames = ol.compare(*(pl.read_csv(path) for path in paths), replicates=200)
    of_runs = ol.compare(*(ol.load(path) for path in paths), replicates=200)
    assert of_runs.change == of_files.change
    assert (of_frames.change.before, of_frames.change.after) == ("before", "after")
    assert of_frames.to_dict()["support"] == of_files.to_dict()["support"]
    mixed = ol.compare(paths[0], pl.read_csv(paths[1]), replicates=200)
    assert mixed.to_dict()["support"]["SRR"] == of_files.change.value["SRR"]
    assert ol.compare(*paths, replicates=200, reading=None).change == of_files.change  # type: ignore[arg-type]
    with pytest.raises(ol.OffleashError, match="Found a int: 3"):
        ol.compare(paths[0], 3)  # type: ignore[arg-type]
    with pytest.raises(ol.OffleashError, match="a Run has none"):
        ol.compare(ol.load(paths[0]), ol.load(paths[1]), verifier="math")


def test_a_result_is_at_most_a_screen_and_draws_its_figures(tmp_path: Path) -> None:
    result = ol.compare(COUNTS / "base.csv", COUNTS / "rl.csv", replicates=200)
    assert len(repr(result).splitlines()) <= 24
    assert result.finding.split(".")[0] in " ".join(repr(result).split())
    drawn = result.figure("plane")
    assert drawn.save(tmp_path / "plane.svg").read_text().startswith("<svg")
    assert drawn.to_dict()["figure"] == "plane"
    assert drawn.chart.to_dict()["$schema"]
    assert result.finding in unescape(result._repr_html_() or "")
    with pytest.raises(ol.OffleashError, match="Did you mean 'plane'"):
        result.figure("plain")
    listed = ol.show_formats()
    assert len(repr(listed).splitlines()) <= 24
    with pytest.raises(ol.OffleashError, match="A FormatsResult has no figure"):
        listed.figure("plane")
    assert json.loads(listed.save(tmp_path / "formats.json").read_text()) == listed.to_dict()


def test_problems_go_from_a_set_to_a_draw_a_verdict_and_a_check(tmp_path: Path) -> None:
    problems = ol.problem_set(EXAMPLES / "problems.jsonl")
    assert len(problems) == problems.frame.height > 2
    assert ol.check(problems).ok
    saved = problems.save(tmp_path / "problems.jsonl")
    assert ol.problem_set(saved).to_dict() == problems.to_dict()
    drawn = ol.draw(problems, f"scripted:{EXAMPLES / 'sums.json'}", k=8, out=tmp_path / "run")
    assert drawn.samples == 8 * len(problems)
    assert sum(ol.verify(drawn.folder).runs[0].verdicts.values()) == drawn.samples
    assert ol.fsck(drawn.folder).ok
    rows: list[object] = []
    streamed = ol.verify(EXAMPLES / "rows.jsonl", verifier="math", each=rows.append)
    assert streamed.rows == ()
    assert len(rows) == sum(streamed.counts["verdicts"].values())
