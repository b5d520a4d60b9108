"""Figures: what they show equals what the comparison says, for any input, and names never become code."""

import json
from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import vl_convert

from offleash.analyses.entropy.entropy import answer_entropy_PR
from offleash.analyses.likelihood.perplexity_by_class import ALL_SAMPLES, CORRECT, perplexities
from offleash.comparing.figures.figure_input import FigureInput
from offleash.data.scores import SCORES
from offleash.errors import OffleashError
from offleash.render.export import VERSION
from offleash.render.figure import PAGE, PAPER, Chart, Figure, MissingFigure
from offleash.reporting.figures import FIGURES, figure, subject
from tests.reporting.worlds import answered, compared, counted, spread, write_counts

HOSTILE = '"+alert(1)+"\'];{{x}}<script>datum.y\\\n${z}\u202egpj'


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> FigureInput:
    return counted(tmp_path_factory.mktemp("counts"), *spread(80, 64))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> FigureInput:
    """Two runs with their answers, compared once for all tests here."""
    return answered(tmp_path_factory.mktemp("answers"))


def drawn(name: str, told: FigureInput, paper: bool = False) -> Figure:
    found = figure(name, told, PAPER if paper else PAGE)
    assert isinstance(found, Figure), found
    return found


def rows(facet: Chart) -> Iterator[dict[str, Any]]:
    """All rows of data that stand in a facet; those of several of its layers once."""
    document, seen = facet.to_dict(), set()
    for part in [document, *document.get("layer", [])]:
        for row in part.get("data", {}).get("values", []):
            if (text := json.dumps(row)) not in seen:
                seen.add(text)
                yield row


def vega(facet: Chart) -> dict[str, Any]:
    document: dict[str, Any] = vl_convert.vegalite_to_vega(facet.to_dict(), vl_version=VERSION)
    return document


def plane_columns(told: FigureInput) -> dict[str, list[Any]]:
    return next(row for row in rows(drawn("plane", told).facets[0]) if "row" in row)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_or_says_what_would_make_it_possible(
    name: str, paper: bool, counts: FigureInput, answers: FigureInput
) -> None:
    for told in (counts, answers):
        found = figure(name, told, PAPER if paper else PAGE)
        assert found.name == name
        assert found.title.endswith("?")
        if isinstance(found, MissingFigure):
            assert len(found.reason) > 20
            assert not found.reason.endswith(".")
            continue
        assert "problem" in found.caption
        assert found.alt.endswith(".")
        for facet in found.facets:
            assert vega(facet)["marks"]


@pytest.mark.parametrize(
    ("before", "after", "n"),
    [
        ([1], [0], 1),
        ([0, 0, 0], [0, 0, 0], 8),
        ([8, 8], [8, 8], 8),
        ([0, 3, 5], [2, 0, 40], [8, 16, 64]),
        ([0, 0], [4, 8], 8),
    ],
    ids=["one sample of one problem", "nothing reached", "all reached", "unequal numbers", "all found"],
)
def test_extreme_counts_are_drawn_too(before: list[int], after: list[int], n: int | list[int], tmp_path: Path) -> None:
    told = counted(tmp_path, before, after, n)
    for name in FIGURES:
        found = figure(name, told, PAPER)
        if isinstance(found, Figure):
            for facet in found.facets:
                assert vega(facet)["marks"]
                assert "NaN" not in json.dumps(facet.to_dict())


def test_names_from_logs_are_data_and_never_part_of_an_expression(tmp_path: Path) -> None:
    steps, (before, after) = [], spread(30, 16)
    parts = [f"{HOSTILE} {p % 3}" for p in range(30)]
    for step, correct in enumerate((before, after, after)):
        steps.append(write_counts(tmp_path / f"{step}.csv", correct, 16, parts))
    told = compared(*(f"step{step}={file}" for step, file in enumerate(steps)))
    renamed = [
        replace(
            one,
            before=replace(one.before, name=HOSTILE),
            after=replace(one.after, name=f"{HOSTILE}{step}"),
        )
        for step, one in enumerate(told.comparisons)
    ]
    told = subject(renamed, told.union)
    for name in FIGURES:
        found = figure(name, told, PAGE)
        for facet in found.facets if isinstance(found, Figure) else ():
            for text in expressions(vega(facet)):
                assert "alert" not in text, (name, text)
            assert "\u202e" not in json.dumps(facet.to_dict(), ensure_ascii=False)


def expressions(node: Any) -> Iterator[str]:
    """Every text of a Vega document that is run, not shown."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("signal", "expr", "update", "test", "init") and isinstance(value, str):
                yield value
            yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def test_two_names_that_are_cut_alike_still_differ(tmp_path: Path) -> None:
    long = "Qwen2.5-Math-1.5B-" + "x" * 60
    told = counted(tmp_path, *spread(20, 16), 16, names=(f"{long}a{'y' * 40}", f"{long}b{'y' * 40}"))
    names = {row["run"] for row in rows(drawn("passes", told, paper=True).facets[0]) if "run" in row}
    assert len(names) == 2
    assert max(map(len, names)) <= 34


def test_the_plane_has_every_problem_once_at_its_rates(counts: FigureInput) -> None:
    columns, told = plane_columns(counts), counts.detail
    assert sorted(columns["row"]) == list(range(80))
    edge = 1 / 64
    for place, row in enumerate(columns["row"]):
        assert columns["cls"][place] == told.class_P[row]
        assert columns["id"][place] == told.problems["problem"][row]
        for axis, r in (("x", 0), ("y", 1)):
            value, rate = columns[axis][place], told.rate_PR[row, r]
            assert (value < edge * 0.99) if rate == 0 else abs(log(value / rate)) < 0.1
    same = {(x, y) for x, y in zip(columns["x"], columns["y"], strict=True)}
    assert len(same) == 80, "equal dots are moved apart"


def test_the_plane_is_the_same_when_drawn_again_and_names_its_dots(counts: FigureInput) -> None:
    first, again = (json.dumps(drawn("plane", counts).facets[0].to_dict(), sort_keys=True) for _ in range(2))
    assert first == again
    assert any(mark.get("name") == "dots_marks" for mark in vega(drawn("plane", counts).facets[0])["marks"])


def test_the_plane_of_a_large_study_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    told = counted(tmp_path, rng.integers(0, 256, 3404).tolist(), rng.integers(0, 256, 3404).tolist(), 256)
    question = pl.Series("question", ["A long question that goes on and on. " * 8] * 3404)
    asked = replace(told.detail, problems=told.detail.problems.with_columns(question))
    facet = drawn("plane", replace(told, detail=asked)).facets[0]
    assert len(json.dumps(facet.to_dict())) < 600_000


def test_the_classes_over_k_always_add_up_and_end_at_the_table(counts: FigureInput) -> None:
    by_k: dict[int, dict[str, float]] = {}
    for row in rows(drawn("support", counts).facets[0]):
        by_k.setdefault(row["k"], {})[row["class"][0]] = row["value"]
    assert all(sum(cells.values()) == pytest.approx(80, abs=0.01) for cells in by_k.values())
    change = counts.comparison.change
    assert by_k[64] == pytest.approx({"P": change.P, "E": change.E, "S": change.S, "O": change.O}, abs=0.01)


def bars(facet: Chart) -> tuple[float, float]:
    """Problems in all bars, and what chance would give, of a facet of evidence."""
    told = list(rows(facet))
    return sum(row["problems"] for row in told if "kind" in row), sum(row["problems"] for row in told if "what" in row)


def test_the_bars_of_losses_and_gains_hold_all_of_them_and_chance_what_the_null_expects(counts: FigureInput) -> None:
    found, null = counts.comparison.evidence, counts.comparison.evidence.null
    assert null is not None
    lost, gained = (bars(facet) for facet in drawn("evidence", counts).facets)
    assert lost[0] == found.S
    assert gained[0] == found.E
    assert lost[1] == pytest.approx(null.expected_S, abs=0.1)
    assert gained[1] == pytest.approx(null.expected_E, abs=0.1)


def test_swapping_the_runs_swaps_losses_and_gains(tmp_path: Path, counts: FigureInput) -> None:
    before, after = spread(80, 64)
    turned = drawn("evidence", counted(tmp_path, after, before)).facets
    assert [bars(facet) for facet in turned] == [bars(facet) for facet in drawn("evidence", counts).facets][::-1]


def test_the_histogram_counts_every_problem_once_in_each_run(tmp_path: Path) -> None:
    told = counted(tmp_path, [0, 0, 1, 2, 5, 10, 10], [10, 9, 3, 3, 3, 0, 1], 10)
    by_run: dict[str, dict[str, int]] = {}
    for row in rows(drawn("accuracy", told).facets[0]):
        by_run.setdefault(row["run"], {})[row["share"]] = row["problems"]
    assert by_run["base"] == {
        "exactly 0": 2,
        "above 0, up to 0.1": 1,
        "above 0.1, up to 0.2": 1,
        "above 0.4, up to 0.5": 1,
        "exactly 1": 2,
    }
    assert by_run["rl"]["above 0.2, up to 0.3"] == 3
    assert by_run["rl"]["above 0.8, up to 0.9"] == 1


def test_benchmarks_stand_by_name_above_the_pooled_value_and_the_mean(tmp_path: Path) -> None:
    parts = ["zebra", "ant", "ant", "cow"] * 10
    told = counted(tmp_path, *spread(40, 16), 16, parts)
    labels = [row["benchmark"] for row in rows(drawn("benchmarks", told).facets[0]) if "benchmark" in row]
    assert labels == ["ant (20)", "cow (10)", "zebra (10)", "all problems (40)", "mean of benchmarks"]


def test_of_many_benchmarks_the_largest_are_shown_and_the_others_told(tmp_path: Path) -> None:
    parts = [f"part {p // 2:02d}" for p in range(100)] + ["part 00"] * 5
    found = drawn("benchmarks", counted(tmp_path, *spread(105, 8), 8, parts))
    assert len([row for row in rows(found.facets[0]) if "benchmark" in row]) == 42
    assert "The 10 smallest benchmarks are left out" in found.caption


def test_what_is_missing_says_the_next_step(counts: FigureInput) -> None:
    for name, word in (
        ("benchmarks", "several benchmarks"),
        ("checkpoints", "several checkpoints"),
        ("perplexity", "offleash score"),
        ("entropy", "offleash score"),
        ("guessing", "--guess"),
    ):
        found = figure(name, counts)
        assert isinstance(found, MissingFigure)
        assert word in found.reason


def test_checkpoints_stand_in_the_order_in_which_they_were_named(tmp_path: Path) -> None:
    correct = spread(30, 16)
    files = [write_counts(tmp_path / f"{step}.csv", correct[min(step, 1)], 16) for step in range(3)]
    told = compared(*(f"{name}={file}" for name, file in zip(("z", "y", "x"), files, strict=True)))
    reach, ratios = drawn("checkpoints", told).facets
    assert [row["run"] for row in rows(reach) if row["kind"] == "pass@1"] == ["z", "y", "x"]
    assert [row["value"] for row in rows(ratios) if row["kind"].startswith("SRR")] == [
        pytest.approx(one.change.value["SRR"], rel=1e-3) for one in told.comparisons
    ]


def test_every_acronym_is_spelt_out_in_its_caption(tmp_path: Path, counts: FigureInput) -> None:
    parts = counted(tmp_path, *spread(20, 16), 16, ["a", "b"] * 10)
    for name in ("support", "benchmarks"):
        caption = drawn(name, counts if name == "support" else parts).caption
        for short, full in (("SRR", "retention"), ("NDR", "discovery"), ("NSCR", "support change")):
            assert full in caption[: caption.index(short)]


def test_the_crossing_is_marked_only_where_it_is_resolved(tmp_path: Path, counts: FigureInput) -> None:
    rng = np.random.default_rng(0)
    rate = rng.beta(0.5, 4, 300)
    sharp = np.where(rng.random(300) < 0.5, np.minimum(4 * rate, 1), 0)
    told = counted(tmp_path, rng.binomial(256, rate).tolist(), rng.binomial(256, sharp).tolist(), 256)
    assert told.comparison.crossing.is_resolved
    found = drawn("passes", told)
    marks = [row for row in rows(found.facets[0]) if "crossing" in row]
    assert marks[0]["k"] == pytest.approx(told.comparison.crossing.k, rel=1e-3)
    assert "base is ahead" in found.caption
    assert not counts.comparison.crossing.is_resolved
    assert not [row for row in rows(drawn("passes", counts).facets[0]) if "crossing" in row]
    assert "No crossing is drawn" in drawn("passes", counts).caption


def test_perplexities_are_quartiles_over_the_traces_of_each_class(tmp_path: Path) -> None:
    told = answered(tmp_path, problems=6, samples=8)
    one = told.comparison
    table = pl.DataFrame(
        [
            {"problem": f"p{p}", "index": i, "tokens": 10, "logprob_raw": -10 * log(2 + i)}
            for p in range(6)
            for i in range(8)
        ],
        schema=SCORES,
    )
    scored = replace(one, after=replace(one.after, scores={"model": table.lazy()}))
    told = subject([scored])
    found = perplexities(told.detail)
    assert {(part.run, part.model) for part in found} == {("after", "model")}
    for name in set(told.detail.class_P.tolist()):
        (whole,) = [part for part in found if part.problems == name and part.traces == ALL_SAMPLES]
        assert whole.samples == 8 * int((told.detail.class_P == name).sum())
        assert whole.median == pytest.approx(exp(np.median(np.log(np.arange(2, 10)))), rel=0.02)
    right = sum(part.samples for part in found if part.traces == CORRECT)
    assert right == int(told.detail.tally.correct_PR[:, 1].sum())
    assert drawn("perplexity", told).facets


def test_the_means_of_both_entropies_are_marked(answers: FigureInput) -> None:
    told = answers
    alone = drawn("entropy", told)
    assert "offleash score" in alone.caption
    table = pl.DataFrame([{"problem": f"p{p}", "index": 0, "tokens": 4, "entropy_raw": 4.0 + p} for p in range(12)])
    one = told.comparison
    samples = table.with_columns(pl.lit("stop").alias("finish")).lazy()
    runs = (replace(one.before, samples=samples), replace(one.after, samples=samples))
    told = subject([replace(one, before=runs[0], after=runs[1])])
    found, entropy_PR = drawn("entropy", told), answer_entropy_PR(told.detail)
    assert entropy_PR is not None
    big = {row["run"]: row for row in rows(found.facets[0]) if "k" in row}
    for r, name in enumerate(("base", "rl")):
        assert big[name]["token"] == pytest.approx(np.mean(1 + np.arange(12) / 4), rel=1e-4)
        assert big[name]["answer"] == pytest.approx(entropy_PR[:, r].mean(), rel=1e-4)


def test_different_answers_and_guesses_are_those_of_the_comparison(answers: FigureInput) -> None:
    told = answers
    found = told.detail.distinct_answers
    assert found is not None
    last = {row["run"]: row["answers"] for row in rows(drawn("distinct", told).facets[0]) if row.get("k") == 16}
    assert last == pytest.approx({"base": found[1][-1, 0], "rl": found[1][-1, 1]}, rel=1e-4)
    bars = {(row["run"], row["place"]): row["problems"] for row in rows(drawn("guessing", told).facets[0])}
    for r, (name, side) in enumerate((("base", "before"), ("rl", "after"))):
        assert bars[name, 0] == int((told.detail.tally.correct_PR[:, r] > 0).sum())
        assert bars[name, 1] == len(told.comparison.guessing.problems[side])
    assert sum(bars[name, 1] for name in ("base", "rl")) > 0


def test_the_best_split_stands_on_the_curve_between_its_ends(counts: FigureInput) -> None:
    split, marks = counts.comparison.portfolio, list(rows(drawn("portfolio", counts).facets[0]))
    assert split is not None
    curve = {row["base"]: row["coverage"] for row in marks if "name" not in row}
    named = {row["name"]: (row["base"], row["coverage"]) for row in marks if "name" in row}
    assert named["all base"] == (64, curve[64])
    assert named["all rl"] == (0, curve[0])
    assert named[f"best: {split.best}"] == (split.best, max(curve.values()))


def test_what_is_told_apart_by_colour_is_explained(answers: FigureInput) -> None:
    told = answers
    for name in ("passes", "plane", "support", "evidence", "accuracy", "distinct", "guessing"):
        for facet in drawn(name, told, paper=True).facets:
            assert vega(facet)["legends"], name


def test_an_unknown_figure_is_refused_with_the_nearest_name(counts: FigureInput) -> None:
    with pytest.raises(OffleashError, match="plane"):
        figure("plain", counts)


def test_pass_at_k_of_several_runs_has_a_curve_per_run_and_of_many_a_spread_that_ends_with_the_last(
    tmp_path: Path,
) -> None:
    files = [write_counts(tmp_path / f"step{r}.csv", [r % 5, 9, 1, 0] * 4, 16) for r in range(14)]
    for used in (files[:4], files):
        drawn = figure("passes", compared(*map(str, used)), PAPER)
        assert isinstance(drawn, Figure)
        spec = drawn.facets[0].to_dict()
        names = next(
            layer["encoding"]["color"]["scale"]["domain"] for layer in spec["layer"] if "color" in layer["encoding"]
        )
        colours = next(
            layer["encoding"]["color"]["scale"]["range"] for layer in spec["layer"] if "color" in layer["encoding"]
        )
        assert names[0] == "step0"
        assert names[-1] == used[-1].stem
        assert len(names) == len(set(colours)) == min(len(used), 9)
        assert f"{len(names)} curves of pass@k" in drawn.alt
        assert ("5 of the 13 runs after the first are not shown" in drawn.caption) == (len(used) > 9)
