"""What Python users hold: verbs by their names, frames as runs, metrics, short reprs, and what a notebook shows."""

import copy
import pickle
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import offleash as ol
from offleash.cli.verbs import VERBS
from tests.comparing.world import drawn, write_log
from tests.places import EXAMPLES

COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")
PROBLEMS, SUMS = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
OTHERWISE = {"problems": "problem_set", "import": "import_logs", "formats": "show_formats"}
SCREEN = 60


@pytest.fixture(scope="module")
def result() -> ol.ComparisonResult:
    return ol.compare(*COUNTS, replicates=200)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_function_of_its_name(verb: str) -> None:
    name = OTHERWISE.get(verb, verb.replace(" ", "_"))
    assert name in ol.__all__
    assert getattr(ol, name).__wrapped__ is VERBS[verb].load().__wrapped__  # type: ignore[attr-defined]


# Frames as runs.


def test_frames_of_polars_and_pandas_are_read_like_their_files(result: ol.ComparisonResult) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frames = [pl.read_csv(path) for path in COUNTS]
    plain = [pandas.DataFrame(frame.to_dict(as_series=False)) for frame in frames]
    for pair in (frames, plain, [frames[0], plain[1].set_index("problem")], [ol.load(plain[0]), plain[1]]):
        compared = ol.compare(*pair, replicates=200)
        assert compared.change.value == result.change.value
        assert compared.problems.equals(result.problems)


def test_a_frame_of_pandas_may_have_missing_values_and_not_a_column_twice() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"problem": ["a", "b"], "n": [8, 8], "c": [1, 2], "benchmark": ["x", None]})
    assert ol.load(frame).problems["benchmark"].to_list() == ["x", None]
    with pytest.raises(ol.OffleashError, match="several columns named 'n'"):
        ol.load(pandas.concat([frame, frame[["n"]]], axis=1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"problm": ["a"], "n": [3], "c": [1]}, "has the columns problm, n, c; counts need .*{'problem': 'problm'}"),
        ({"problem": ["a"], "n": [3], "num_corect": [1]}, "Did you mean columns={'c': 'num_corect'}"),
        ({"x": ["a"], "y": [1]}, "has the columns x, y; .* Rename its columns"),
        ({"problem": [], "n": [], "c": []}, "The frame 'before' has no rows"),
        ({"problem": ["a"], "n": [3], "c": [7]}, "The frame 'before': row 1"),
    ],
)
def test_a_frame_without_its_columns_is_refused_with_what_it_has(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ol.OffleashError, match=message) as error:
        ol.compare(pl.DataFrame(columns), pl.DataFrame(columns))
    assert "/tmp" not in str(error.value)
    assert "offleash-" not in str(error.value)


def test_the_columns_that_an_error_proposes_work() -> None:
    frame = pl.DataFrame({"problem": ["a", "b"], "n": [8, 8], "num_corect": [1, 2]})
    assert ol.load(frame, reading=ol.Reading(columns={"c": "num_corect"})).counts is not None


def test_what_is_no_run_is_named() -> None:
    with pytest.raises(ol.OffleashError, match=r"a loaded run, or a polars or pandas frame\. Found a list"):
        ol.compare([1], [2])  # type: ignore[arg-type]


# Metrics, tables, text.


def test_a_metric_is_a_float_with_its_interval(result: ol.ComparisonResult) -> None:
    for name in ("SRR", "NDR", "SDS", "NSCR"):
        metric = getattr(result, name)
        assert metric == result.change.value[name]
        assert metric.interval == result.change.interval[name]
        assert f"{metric:.2f}" == f"{float(metric):.2f}"
        again = pickle.loads(pickle.dumps(metric))
        assert (again, again.interval) == (metric, metric.interval)
        assert copy.deepcopy(metric).interval == metric.interval
    assert round(result.SRR * 2, 6) == round(2 * result.change.value["SRR"], 6)


def test_results_have_a_summary_and_frames(result: ol.ComparisonResult) -> None:
    assert result.finding in result.summary()
    assert f"SRR {result.SRR:.3f}" in result.summary()
    frame = result.to_frame()
    assert frame.row(0, named=True)["S"] == result.change.S
    several = ol.compare(*COUNTS, COUNTS[0], at=64, replicates=100)
    assert several.to_frame()["after"].to_list() == ["rl", "base#2"]
    assert several.to_frame()["reached_before"].to_list() == pytest.approx([several.curves["before"].value_K[6]] * 2)
    lost = result.problems.filter(pl.col("class") == "S", pl.col("q_class") <= 0.05).sort("p_class", "id")
    assert set(lost["id"]) == set(result.evidence.lost)


def test_a_study_has_what_its_comparison_has(tmp_path: Path, everything: dict[str, object]) -> None:
    study = everything["study"]
    assert isinstance(study, ol.StudyResult)
    assert study.comparison.change.value["SRR"] == study.SRR
    assert study.problems.height == 4
    assert study.finding in study.summary()
    assert "<svg" in (study._repr_html_() or "")
    dry = ol.study(PROBLEMS, SUMS, SUMS, k=8, out=tmp_path / "none", dry_run=True)
    with pytest.raises(ol.OffleashError, match="dry run"):
        _ = dry.problems
    assert dry.to_frame()["problems"].to_list() == [4]


@pytest.fixture(scope="module")
def everything(result: ol.ComparisonResult, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a user can get hold of by public functions and attributes of their results, on larger inputs."""
    from offleash.comparing.per_problem import detail

    folder = tmp_path_factory.mktemp("everything")
    logs = [write_log(folder / f"{name}.jsonl", drawn(300, 8, seed)) for name, seed in (("base", 0), ("rl", 1))]
    judging = ol.Judging(jobs=1)
    run = ol.draw(PROBLEMS, SUMS, k=64, out=folder / "drawn")
    runs = {name: ol.load(path) for name, path in zip(("base", "rl"), COUNTS, strict=True)}
    tally = ol.tally(runs)
    comparison = result.comparison
    parts = {name: getattr(comparison, name) for name in vars(comparison) if not name.startswith("_")}
    return {
        "several": ol.compare(*COUNTS, COUNTS[0], replicates=100),
        "logs": ol.compare(*logs, list="lost", replicates=100),
        "flips": ol.compare(*logs, flips=True, replicates=100),
        "report": ol.report(*COUNTS, format="md", replicates=100),
        "latex": ol.report(*COUNTS, format="latex", replicates=100),
        "figure": result.figure("plane"),
        "subject": result.subject(),
        "plan": ol.plan_samples(*COUNTS),
        "problems": ol.problem_set(PROBLEMS),
        "benchmarks": ol.problem_set(),
        "study": ol.study(PROBLEMS, SUMS, SUMS, k=8, out=folder / "study", judging=judging),
        "check": ol.check(PROBLEMS, jobs=1),
        "draw": run,
        "verify": ol.verify(run.folder, judging=judging),
        "rows": ol.verify(EXAMPLES / "rows.jsonl", verifier="math", judging=judging),
        "show": ol.show(run.folder, "sum", verdict="all", most=64),
        "import": ol.import_logs(logs[0], out=folder / "imported"),
        "formats": ol.show_formats(),
        "fsck": ol.fsck(run.folder),
        "lab": ol.lab_list(),
        "run": ol.load(logs[0]),
        "tally": tally,
        "change": ol.support_change(tally, "base", "rl", replicates=100),
        "curve": ol.pass_curve(tally, replicates=100),
        "detail": detail(comparison),
        "result": result,
        **parts,
        **{f"result.{name}": getattr(result, name) for name in ("inputs", "curves", "evidence", "problems")},
    }


def test_the_repr_of_everything_fits_on_a_screen(everything: dict[str, object]) -> None:
    for name, value in everything.items():
        assert len(repr(value).splitlines()) <= SCREEN, name


def test_every_result_has_a_frame_and_a_summary(everything: dict[str, object]) -> None:
    from offleash.results.result import Result

    for name, value in everything.items():
        if isinstance(value, Result):
            assert value.to_frame().width > 0, name
            assert value.summary().strip(), name


# The notebook.


class Tags(HTMLParser):
    """Every tag and attribute of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_notebook_shows_finding_tiles_rates_and_pass_at_k(result: ol.ComparisonResult) -> None:
    html = result._repr_html_() or ""
    text = unescape(html)
    assert result.finding in text
    for words in ("P kept", "142", "S lost", "21", "6.5 by chance", f"{result.SRR:.3f} [", "pass@k"):
        assert words in text
    svg = re.search(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert svg is not None
    drawing = ElementTree.fromstring(svg[0])
    lines = [line.get("points", "").split() for line in drawing.iter("polyline")]
    assert [len(points) for points in lines] == [11, 11]  # k = 1, 2, 4, ..., 1024
    heights = [float(points[-1].split(",")[1]) for points in lines]
    assert heights[0] < heights[1]  # at 1,024 samples the base is ahead, and y grows downwards
    found = Tags(html)
    assert not found.tags & {"script", "iframe", "object", "link", "img"}
    assert not {name for name in found.attributes if name.startswith("on")}


def test_hostile_names_stay_text_in_a_notebook() -> None:
    pair = [ol.load(path, name=f"<script>{name}</script>\"'") for name, path in zip("ab", COUNTS, strict=True)]
    html = ol.compare(*pair, replicates=100)._repr_html_() or ""
    assert "script" not in Tags(html).tags


def test_one_sample_per_problem_has_no_curve_to_draw() -> None:
    frame = pl.DataFrame({"problem": ["a", "b", "c"], "n": [1, 1, 1], "c": [1, 0, 1]})
    assert "<svg" not in (ol.compare(frame, frame.with_columns(c=1 - pl.col("c")), replicates=100)._repr_html_() or "")
