"""Likelihood: traces as they are read and kept, the laws of runs, and perplexity by class in worlds that are known."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.likelihood.likelihood import Likelihood, LikelihoodRequest, likelihood
from offleash.analyses.likelihood.missing_scores import ScoringEstimate
from offleash.analyses.likelihood.models import SIDES, ModelOverride, run_folder, run_model_of, scores_under
from offleash.analyses.likelihood.perplexity_by_class import TRACES, groups, perplexities, styles
from offleash.analyses.likelihood.traces import TraceFile, read_traces
from offleash.comparing.per_problem import detail
from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.data.scores import Trace, scored_models
from offleash.errors import OffleashError
from offleash.samplers.sampler import SamplingParams
from tests.analyses.likelihood.likelihood_world import World, problems, world
from tests.verifying.samples import run_of_texts

PLACES = {"p0": 0, "p1": 1, "first": 0}
GOOD = {"problem": "p0", "text": "a b", "author": "x"}


def lines(file: Path, *rows: object) -> Path:
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


def read(file: Path, *rows: object) -> TraceFile:
    return read_traces(lines(file, *rows), PLACES)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return tiny.run(folder / "base", "before", 48), tiny.run(folder / "rl", "after", 48)


@pytest.fixture(scope="module")
def told(runs: tuple[str, str]) -> Likelihood:
    return likelihood(*runs, LikelihoodRequest(first=8), question(at=2, replicates=200))


def test_what_is_no_trace_is_counted_and_named(tmp_path: Path) -> None:
    found = read(
        tmp_path / "traces.jsonl",
        GOOD,
        {**GOOD, "correct": True, "finish": "stop"},  # the same text: counted once
        {**GOOD, "problem": "first"},  # another run's id of the same problem
        {**GOOD, "problem": "p1", "text": " \n"},
        {**GOOD, "problem": "p1", "text": None},
        {**GOOD, "problem": "p0x"},
        {**GOOD, "problem": 17},
        {"problem": "p1", "text": "b", "author": "y", "correct": 0},
    )
    assert (found.rows, found.duplicates, found.empty, found.unknown_rows) == (8, 2, 2, 2)
    assert dict(found.unknown) == {"p0x": "p0", "17": ""}
    assert [(one.tally_row, one.author, one.correct) for one in found.traces] == [(0, "x", True), (1, "y", False)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{not json", "row 1 is cut off or not JSON"),
        ("[1]", "row 1 is a JSON list"),
        ({"problem": "p0", "text": "a"}, r"no 'author'; found problem, text.*--map author=COLUMN"),
        ({**GOOD, "text": 5}, "'text' should be a string; found '5'"),
        ({**GOOD, "author": " "}, "'author' should be who wrote"),
        ({**GOOD, "author": "x\ud800"}, r"row 1: 'author' should be text in UTF-8; found 'x\\ud800'"),
        ({**GOOD, "problem": "p0\udcff"}, "row 1: 'problem' should be text in UTF-8"),
        ({**GOOD, "correct": "yes"}, "'correct' should be true, false or null; found 'yes'"),
        ({**GOOD, "problem": ["p0"]}, "'problem' should be the id"),
        ({**GOOD, "problem": "p00"}, r"none of its 1 traces belongs to a problem of the runs.*Did you mean 'p0'"),
        ({**GOOD, "text": ""}, "traces are empty"),
        ("", "is empty"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_what_was_found(tmp_path: Path, row: object, words: str) -> None:
    with pytest.raises(OffleashError, match=words):
        read(tmp_path / "traces.jsonl", row)


def test_bytes_that_are_no_text_are_refused_in_names_and_replaced_in_traces(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_bytes(json.dumps(GOOD).encode().replace(b"a b", b"a \xff b") + b"\n")
    assert [one.text for one in read_traces(file, PLACES).traces] == ["a ? b"]
    file.write_bytes(json.dumps(GOOD).encode() + b"\n" + json.dumps(GOOD).encode().replace(b'"x"', b'"\xff"') + b"\n")
    with pytest.raises(OffleashError, match="row 2: 'author' should be text in UTF-8"):
        read_traces(file, PLACES)


def test_the_same_trace_cannot_be_right_and_wrong(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="rows 1 and 2"):
        read(tmp_path / "traces.jsonl", {**GOOD, "correct": True}, {**GOOD, "correct": False})
    with pytest.raises(OffleashError, match="Did you mean 'text'"):
        read_traces(lines(tmp_path / "traces.jsonl", GOOD), PLACES, {"txt": "text"})
    with pytest.raises(OffleashError, match="There is no file"):
        read_traces(tmp_path / "none.jsonl", PLACES)


def test_a_run_that_does_not_say_who_drew_it_asks_for_the_model(tmp_path: Path, runs: tuple[str, str]) -> None:
    imported = run_of_texts(tmp_path / "run", {"p": "a"}, {"p": ["a"]})
    with pytest.raises(OffleashError, match="--model-after hf:PATH"):
        run_model_of("after", "run", imported, ModelOverride())
    law = run_model_of("after", "run", imported, ModelOverride("hf:./rl"))
    assert (str(law.model), law.known, law.decoding.is_plain) == ("hf:./rl", False, True)
    with pytest.raises(OffleashError, match="only hf: provides"):
        run_model_of("before", "run", imported, ModelOverride("endpoint:http://localhost#m"))
    logs = lines(tmp_path / "log.jsonl", {"problem": "p", "verdict": "correct"})
    with pytest.raises(OffleashError, match=r"offleash import .* --texts -o RUN"):
        run_folder(str(logs))
    drawn = run_model_of("before", "base", Path(runs[0]), ModelOverride())
    assert drawn.fingerprint
    assert drawn.decoding == SamplingParams(max_tokens=3)


def test_weights_that_changed_are_refused_unless_the_user_names_them(runs: tuple[str, str]) -> None:
    law = run_model_of("before", "base", Path(runs[0]), ModelOverride())
    assert law.now == law.fingerprint != ""
    assert law.check() == ""
    with pytest.raises(OffleashError, match="no longer has the weights"):
        replace(law, now="other").check()
    assert "the weight files of" in replace(law, given=True, now="other").check()


def test_standing_scores_of_other_weights_or_settings_are_refused_with_what_differs(
    tmp_path: Path, tiny: World
) -> None:
    model = shutil.copytree(tiny.models["after"], tmp_path / "model")
    before, after = (tiny.run(tmp_path / side, side, 6) for side in SIDES)
    few, rows = question(at=2, replicates=200), [{"problem": "p0", "text": "a b", "author": "x"}]
    traces = lines(tmp_path / "traces.jsonl", *rows)
    named, asked = ModelOverride(f"hf:{model}"), LikelihoodRequest(first=2, traces=traces)

    def report(given: ModelOverride, scoring: bool = True, traced: bool = True) -> Likelihood:
        what = replace(asked, overrides={"after": given}, scoring=scoring, traces=traces if traced else None)
        return likelihood(before, after, what, few)

    report(named)
    with pytest.raises(OffleashError, match="raw: stored false, requested true"):
        report(replace(named, raw=True), traced=False)
    for scoring in (True, False):
        with pytest.raises(OffleashError, match="dtype: stored float32, requested bfloat16"):
            report(replace(named, settings={"dtype": "bfloat16"}), scoring)
    with pytest.raises(OffleashError, match="Did you mean 'dtype'"):
        report(replace(named, settings={"dtyp": "bfloat16"}))
    assert report(replace(named, settings={"dtype": "float32"})).work.samples == 0
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))  # one number of them
    for folder in ("scores", "traces"):
        with pytest.raises(OffleashError, match=rf"(?s)/{folder}/.*fingerprint: stored \w+, requested \w+"):
            report(named)
        for run in (before, after):
            shutil.rmtree(Path(run) / "scores", ignore_errors=True)


def test_both_models_are_looked_at_before_the_first_one_scores(tmp_path: Path, tiny: World) -> None:
    before, after = (tiny.run(tmp_path / side, side, 4) for side in SIDES)
    lost = LikelihoodRequest(first=2, overrides={"after": ModelOverride(f"hf:{tmp_path}/gone")})
    with pytest.raises(OffleashError, match="gone is not a folder"):
        likelihood(before, after, lost, question(replicates=200))
    assert not scored_models(Path(before))
    model = shutil.copytree(tiny.models["after"], tmp_path / "moved")
    facts = Path(after) / "run.json"
    facts.write_text(facts.read_text().replace(str(tiny.models["after"]), str(model)))
    shutil.copy(tiny.models["before"] / "model.safetensors", model / "model.safetensors")
    with pytest.raises(OffleashError, match="no longer has the weights that drew"):
        likelihood(before, after, LikelihoodRequest(first=2), question(replicates=200))
    assert not scored_models(Path(before))


def test_scores_of_another_decoding_are_never_taken_for_those_of_the_law(
    runs: tuple[str, str], told: Likelihood
) -> None:
    folder, law = Path(runs[0]), told.run_models[0]
    assert scores_under(folder, law).name in scored_models(folder)
    cooler = scores_under(folder, replace(law, decoding=SamplingParams(temperature=0.5)))
    assert cooler.name not in scored_models(folder)
    assert "0.5" in cooler.name


def test_only_what_is_missing_is_scored_and_announced_before(runs: tuple[str, str], told: Likelihood) -> None:
    ahead: list[ScoringEstimate] = []
    again = likelihood(*runs, LikelihoodRequest(first=8), question(at=2, replicates=200), announce=ahead.append)
    assert (again.work.samples, ahead[0].missing) == (0, 0)
    more = likelihood(*runs, LikelihoodRequest(first=9), question(at=2, replicates=200), announce=ahead.append)
    # a correct sample that becomes one of the first is read again: its entropy by position is kept from then on
    assert 0 < ahead[1].missing <= more.work.samples <= 4 * len(problems())
    assert again.cross.rows == told.cross.rows


def test_the_figure_of_all_samples_holds_none_that_a_verdict_has_chosen(tmp_path: Path, tiny: World) -> None:
    runs = [tiny.run(tmp_path / side, side, 24) for side in ("before", "after")]
    scored = likelihood(runs[0], runs[1], LikelihoodRequest(first=5), question(at=2, replicates=200)).scored
    assert all(one.frame.height > 5 * len(problems()) for one in scored)
    (one,), _ = compare_inputs(runs, None, question(at=2, replicates=200))
    for spread in (found := perplexities(detail(one))):
        assert spread.samples <= 5 * len(problems()) or spread.traces == "correct"
    assert sum(spread.samples for spread in found if spread.traces == "all") == 4 * 5 * len(problems())


def test_the_leash_holds_none_that_a_verdict_has_chosen_whatever_first_is_asked_for(
    tmp_path: Path, tiny: World
) -> None:
    pair = tiny.run(tmp_path / "base", "before", 48), tiny.run(tmp_path / "rl", "after", 48)
    scored = likelihood(*pair, LikelihoodRequest(first=8), question(replicates=200))
    later = likelihood(*pair, LikelihoodRequest(first=48, scoring=False), question(replicates=200))
    for one in (scored, later):
        assert {some.samples for some in one.leash.divergences} == {8 * 8}


def test_external_traces_are_scored_once_and_long_ones_in_windows(tmp_path: Path, runs: tuple[str, str]) -> None:
    long = " ".join(["a", "b"] * 50)  # the models read 64 tokens
    rows = [{"problem": f"p{i}", "text": text, "author": "x"} for i in range(6) for text in ("a b", "b", long)]
    asked = LikelihoodRequest(first=8, traces=lines(tmp_path / "traces.jsonl", *rows))
    found = likelihood(*runs, asked, question(at=2, replicates=200))
    assert found.traces is not None
    assert (found.work.traces, found.traces.scored, found.traces.windowed) == (36, 18, 6)
    again = likelihood(*runs, replace(asked, scoring=False), question(at=2, replicates=200))
    assert again.work.traces == 0
    numbers = [(one.author, one.cell, one.log_ratio.value) for one in found.groups]
    assert numbers == [(one.author, one.cell, one.log_ratio.value) for one in again.groups]
    assert {one.author for one in found.groups if not one.own} == {"x"}
    (store,) = (Path(runs[0]) / "traces").glob("*.jsonl")
    store.write_text(store.read_text()[:-20])  # a kill in the middle of a line
    assert likelihood(*runs, asked, question(at=2, replicates=200)).work.traces == 1


def test_the_sums_of_an_external_trace_are_those_of_the_scorer(
    tmp_path: Path, tiny: World, runs: tuple[str, str]
) -> None:
    from offleash.samplers.huggingface.scoring import Scorer

    file = lines(tmp_path / "traces.jsonl", {"problem": "p2", "text": "a b a", "author": "x"})
    found = likelihood(*runs, LikelihoodRequest(first=8, traces=file), question(at=2, replicates=200))
    (group,) = (one for one in found.groups if not one.own)
    for side, sampler in tiny.samplers.items():
        (sums,) = Scorer.for_sampler(sampler).score([Trace("a a a", "a b a")], SamplingParams())
        assert group.perplexity[side].value == pytest.approx(sums.perplexity, rel=1e-4)
    assert group.log_ratio.value == pytest.approx(
        np.log(group.perplexity["before"].value / group.perplexity["after"].value), rel=1e-4
    )


def test_perplexity_by_class_is_the_one_written_down_and_problems_weigh_alike(told: Likelihood) -> None:
    cells = told.detail.class_k_P.tolist()
    commonest = max(set(cells), key=cells.count)
    one, two = [place for place, cell in enumerate(cells) if cell == commonest][:2]
    rows = [("x", False, one, None, 10, -1.0, -2.0)] * 3 + [("x", False, two, True, 30, -2.0, -1.0)]
    rows += [("x", False, two, False, 30, -9.0, -9.0)]  # wrong: not in the table
    rows += [("base", True, two, None, 30, -9.0, -9.0)]  # a run's own sample that no verdict calls correct: nor this
    (group,) = groups(told.detail, pl.DataFrame(rows, schema=TRACES, orient="row"))
    assert (group.problems, group.traces, group.unjudged, group.tokens) == (2, 4, 3, 20)
    assert group.perplexity["before"].value == pytest.approx(np.exp(1.5))
    assert group.mean_perplexity["after"] == pytest.approx((np.exp(2) + np.exp(1)) / 2)
    assert group.log_ratio.value == pytest.approx(0)
    assert np.isnan([group.log_ratio.interval.low, group.log_ratio.interval.high]).all()  # two problems tell none
    assert group.matched is None  # one class alone


def test_samples_that_were_not_read_are_neither_correct_nor_wrong(told: Likelihood) -> None:
    for part, law in zip(told.scored, told.run_models, strict=True):
        verdicts = pl.read_parquet(law.folder / "verdicts" / "*" / "*.parquet").with_columns(pl.col("index").cast(int))
        joined = part.frame.with_columns(pl.col("index").cast(int)).join(verdicts, on=["problem", "index"])
        said = set(joined.select(pl.col("verdict").cast(pl.String), "correct").iter_rows())
        assert said == {("correct", True), ("wrong", False), ("unread", None)}


def test_the_style_control_takes_away_what_an_author_has_in_common(told: Likelihood) -> None:
    rows = []
    for place in range(len(told.detail.class_P)):
        style = -0.5 * place  # the model after dislikes the author's manner, more on some problems
        rows.append(("x", False, place, True, 10, -1.0, -0.8 + style))
        rows.append(("x", False, place, False, 10, -1.5, -1.5 + style))
    rows.append(("y", False, 0, True, 10, -1.0, -1.0))  # has no wrong one
    found = styles(told.detail, pl.DataFrame(rows, schema=TRACES, orient="row"))
    assert {one.author for one in found} == {"x"}
    assert (found[0].cell, found[0].problems) == ("all", len(problems()))
    assert found[0].before.interval.low == pytest.approx(0.5)
    for one in found:
        assert one.before.value == pytest.approx(0.5)
        assert one.after.value == pytest.approx(0.7)
        assert one.change.value == pytest.approx(0.2)
