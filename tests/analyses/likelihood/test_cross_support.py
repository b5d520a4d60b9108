"""Cross-support and the leash of tiny models against all of their completions, enumerated with exact probabilities."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.likelihood.cross_support import CrossSupportRow
from offleash.analyses.likelihood.likelihood import Likelihood, LikelihoodRequest, likelihood
from offleash.analyses.likelihood.report import finding, notes
from offleash.comparing.question import question
from offleash.samplers.huggingface.sampler import open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import SamplingParams
from offleash.stats.likelihood import Reach
from tests.analyses.likelihood.likelihood_world import SEEDS, SPOKEN, World, given_back, problems, world

K = 384
SAME = ["problem", "token_ids", "finish"]
Exact = dict[str, pl.DataFrame]
Told = tuple[Likelihood, Exact]


def report(before: str, after: str, at: int | None = None, first: int = K) -> Likelihood:
    return likelihood(before, after, LikelihoodRequest(first=first), question(at=at, replicates=200))


def both(exact: Exact, finder: str) -> pl.DataFrame:
    """Every completion of the finder with its own probability and the other's (0: it never writes it)."""
    (other,) = (side for side in SEEDS if side != finder)
    theirs = exact[other].select(*SAME, other="p")
    joined = exact[finder].join(theirs, on=SAME, how="left").with_columns(pl.col("other").fill_null(0.0))
    return joined.with_columns(given_back=given_back(joined))


def mass(rows: pl.DataFrame, problem: str) -> float:
    return float(rows.filter(pl.col("correct") & (pl.col("problem") == problem))["p"].sum())


def seen_mass(rows: pl.DataFrame, row: CrossSupportRow, drawn: int) -> tuple[float, float]:
    """The other's correct mass on what the finder can draw and its text gives back, and the estimate's exact error."""
    right = rows.filter((pl.col("problem") == row.problem) & pl.col("correct") & pl.col("given_back"))
    p, q = right["p"].to_numpy(), right["other"].to_numpy()
    return float(q.sum()), float(np.sqrt(((q**2 / p).sum() - q.sum() ** 2) / drawn))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("spoken"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Told:
    """A report at a small k, so that some problems are reached by one model only, and the exact laws."""
    folder = tmp_path_factory.mktemp("told")
    runs = [tiny.run(folder / side, side, K, seed=1) for side in SEEDS]
    exact = {side: tiny.exact(side) for side in SEEDS}
    return report(runs[0], runs[1], at=4), exact


def test_the_certain_bound_never_exceeds_the_exact_mass_and_the_estimate_is_near_it(told: Told) -> None:
    found, exact = told
    assert {row.cell for row in found.cross.rows} == {"E", "S"}
    for row in found.cross.rows:
        (other,) = (side for side in SEEDS if side != row.finder)
        truth = mass(exact[other], row.problem)
        assert 0 < row.certain_bound <= truth + 1e-6
        expected, error = seen_mass(both(exact, row.finder), row, row.drawn)
        assert expected <= truth + 1e-6
        assert row.estimate == pytest.approx(expected, abs=4 * error)
        assert row.bound_95 == pytest.approx(0.05 * row.estimate)
        assert 1 <= row.effective_samples <= row.successes
        assert (row.unusable, row.excluded) == (0, 0)


def test_the_reading_says_what_the_bound_shows_and_never_new(told: Told) -> None:
    found, _ = told
    for row in found.cross.rows:
        low = max(row.certain_bound, row.bound_95) if row.effective_samples >= 5 else row.certain_bound
        assert row.chance_within_k == pytest.approx(1 - (1 - low) ** found.cross.k)
        wanted = (
            Reach.MISSED if low > found.cross.epsilon else Reach.WITHIN if row.chance_within_k >= 0.05 else Reach.OPEN
        )
        assert row.reading is wanted
        if row.reading is Reach.OPEN:
            assert row.reading_rests_on is None  # no bound shows that nothing can be said
        else:
            assert row.reading_rests_on == "certain_bound" or row.estimated
        assert row.other_drawn == K
        assert row.other_successes > 0  # k is small here: all of the other's samples show it
    assert not any("new" in reading.value or "under" in reading.value for reading in Reach)


def test_the_chance_by_both_runs_is_near_the_exact_one(told: Told) -> None:
    found, exact = told
    assert found.cross.both is not None
    for side in SEEDS:
        truth = np.array([mass(exact[side], problem) for problem in problems()["problem"]])
        estimate = found.cross.both.together[side]
        error = np.sqrt((truth * (1 - truth)).sum() / K) / len(truth)  # of one run's own samples
        assert estimate.value == pytest.approx(truth.mean(), abs=4 * error)
        assert estimate.interval.low < estimate.value < estimate.interval.high
    assert found.cross.both.mixture_PR.shape == (len(problems()), 2)


def test_the_divergence_is_that_of_the_enumerated_laws(told: Told) -> None:
    found, exact = told
    assert [one.of for one in found.leash.divergences] == list(SEEDS)
    for one in found.leash.divergences:
        rows = both(exact, one.of).with_columns(gap=(pl.col("p") / pl.col("other")).log())
        by = rows.group_by("problem").agg(
            mean=(pl.col("p") * pl.col("gap")).sum(), square=(pl.col("p") * pl.col("gap") ** 2).sum()
        )
        error = np.sqrt((by["square"] - by["mean"] ** 2).to_numpy().sum() / K) / by.height
        assert one.sequence["all"].value == pytest.approx(float(by["mean"].to_numpy().mean()), abs=4 * error)
        assert 0 < one.token.value < one.sequence["all"].value
    assert found.leash.retokenised == 0


def test_swapping_the_runs_swaps_found_and_lost_and_the_two_divergences(told: Told) -> None:
    found, _ = told
    before, after = (str(law.folder) for law in found.run_models)
    other = report(after, before, at=4)
    cell = {"E": "S", "S": "E"}
    numbers = {(row.problem, row.cell): (row.certain_bound, row.estimate, row.reading) for row in found.cross.rows}
    assert numbers == {
        (row.problem, cell[row.cell]): (row.certain_bound, row.estimate, row.reading) for row in other.cross.rows
    }
    lengths = [one.sequence["all"].value for one in found.leash.divergences]
    assert lengths == pytest.approx([one.sequence["all"].value for one in reversed(other.leash.divergences)])
    assert other.work.samples == 0


def test_two_runs_of_one_model_are_no_leash_apart_and_every_weight_is_one(tmp_path: Path, tiny: World) -> None:
    runs = [tiny.run(tmp_path / name, "after", 16, seed=seed) for seed, name in enumerate(("one", "two"), 3)]
    found = report(runs[0], runs[1], at=3)
    assert [one.sequence["all"].value for one in found.leash.divergences] == pytest.approx([0, 0], abs=1e-4)
    assert found.cross.rows
    for row in found.cross.rows:
        assert row.estimate == pytest.approx(row.successes / row.drawn, rel=1e-3)
        assert row.effective_samples == pytest.approx(row.successes, rel=1e-3)


def test_under_a_decoding_the_laws_are_those_of_the_decoding_and_there_is_no_divergence(
    tmp_path: Path, tiny: World
) -> None:
    way = SamplingParams(temperature=0.8, top_p=0.7, max_tokens=3)
    runs = [tiny.run(tmp_path / side, side, 128, way) for side in SEEDS]
    exact = {side: tiny.exact(side, way) for side in SEEDS}
    found = report(runs[0], runs[1], at=8, first=4)
    assert "temperature 0.8, top-p 0.7" in found.leash.reason
    assert not found.leash.divergences
    assert found.cross.rows
    for row in found.cross.rows:
        (other,) = (side for side in SEEDS if side != row.finder)
        assert row.certain_bound <= mass(exact[other], row.problem) + 1e-6
        expected, error = seen_mass(both(exact, row.finder), row, row.drawn)
        assert row.estimate == pytest.approx(expected, abs=4 * error + 1e-6)
    assert any(row.excluded for row in found.cross.rows)  # the other's law cuts a token of them


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Models whose texts are read as other tokens, at times."""
    return world(tmp_path_factory.mktemp("silent"), silent=True)


def test_texts_that_are_read_as_other_tokens_are_counted_and_weigh_nothing(tmp_path: Path, silent: World) -> None:
    runs = [silent.run(tmp_path / f"run-{side}", side, K) for side in SEEDS]
    exact = {side: silent.exact(side) for side in SEEDS}
    found = report(runs[0], runs[1], at=4, first=8)
    assert all(one.retokenised > one.checked // 10 for one in found.scored)
    assert found.cross.rows
    for row in found.cross.rows:
        (other,) = (side for side in SEEDS if side != row.finder)
        assert row.certain_bound <= mass(exact[other], row.problem) + 1e-6
        expected, error = seen_mass(both(exact, row.finder), row, row.drawn)
        assert row.estimate == pytest.approx(expected, abs=4 * error)
    assert any(row.unusable for row in found.cross.rows)


def test_of_one_model_drawn_twice_the_chance_by_both_runs_is_the_mean_of_the_two_by_their_own(
    tmp_path: Path, silent: World
) -> None:
    runs = [silent.run(tmp_path / name, "after", 24, seed=seed) for seed, name in enumerate(("one", "two"), 3)]
    found = report(runs[0], runs[1], at=2)
    both, own = found.cross.both, []
    assert both is not None
    for part in found.scored:
        right = part.frame.filter("correct")
        usable = right.filter(~pl.col("retokenised")).height
        assert both.unusable[part.side] == right.height - usable > 0
        assert both.own[part.side].value == pytest.approx(usable / part.frame.height)
        own.append(both.own[part.side].value)
    assert both.unjudged == {"before": 0, "after": 0}
    for side in SEEDS:
        assert both.together[side].value == pytest.approx(np.mean(own), rel=1e-4)


def test_a_sample_without_a_verdict_does_not_count_as_drawn_and_an_unread_one_does(tmp_path: Path, tiny: World) -> None:
    runs = [tiny.run(tmp_path / name, "before", 24, seed=seed) for seed, name in enumerate(("one", "two"), 3)]
    for file in (Path(runs[0]) / "verdicts").rglob("*.parquet"):
        pl.read_parquet(file).filter(pl.col("index") % 3 > 0).write_parquet(file)
    judged = [pl.read_parquet(Path(run) / "verdicts" / "*" / "*.parquet") for run in runs]
    assert all((one["verdict"].cast(pl.String) == "unread").any() for one in judged)
    found = report(runs[0], runs[1], at=2).cross.both
    assert found is not None
    assert (found.problems, found.samples) == (len(problems()), 24)
    assert found.unjudged == {"before": 8 * len(problems()), "after": 0}
    right = (pl.col("verdict").cast(pl.String) == "correct").mean()
    rates = [one.group_by("problem").agg(right=right)["right"].mean() for one in (*judged, pl.concat(judged))]
    assert [found.own[side].value for side in SEEDS] == pytest.approx(rates[:2])
    for side in SEEDS:  # one model drawn twice: every weight is one
        assert found.together[side].value == pytest.approx(rates[2], rel=1e-4)


def test_a_problem_that_stopped_at_its_third_success_is_counted_without_it(tmp_path: Path, tiny: World) -> None:
    runs = [tiny.run(tmp_path / side, side, 64, seed=1, until=3) for side in SEEDS]
    found = report(runs[0], runs[1], at=4, first=4)
    scored = {one.side: one.frame for one in found.scored}
    stopped = [row for row in found.cross.rows if row.successes == 3]
    assert stopped
    for row in stopped:
        (other,) = (side for side in SEEDS if side != row.finder)
        right = scored[row.finder].filter(pl.col("correct") & (pl.col("problem") == row.problem)).sort("index")
        weight = np.exp((right[f"law_{other}"] - right[f"law_{row.finder}"]).to_numpy())[:2]
        assert row.estimate == pytest.approx(weight.sum() / (row.drawn - 1))


def test_the_success_that_stopped_a_problem_stays_out_where_an_earlier_one_has_no_score(
    tmp_path: Path, tiny: World
) -> None:
    runs = [tiny.run(tmp_path / side, side, 64, seed=1, until=3) for side in SEEDS]
    whole = report(runs[0], runs[1], at=4, first=4)
    scored = {one.side: one.frame for one in whole.scored}
    stopped = {row.problem: row for row in whole.cross.rows if row.successes == 3}
    for folder in runs:  # as a kill leaves them: the shard of the first successes was not written
        for file in (Path(folder) / "scores").glob("*/*.parquet"):
            (pl.read_parquet(file).filter(pl.col("index") >= 4)).write_parquet(file)
    found = likelihood(runs[0], runs[1], LikelihoodRequest(first=4, scoring=False), question(at=4, replicates=200))
    changed = 0
    for row in found.cross.rows:
        if row.problem not in stopped:
            continue
        (other,) = (side for side in SEEDS if side != row.finder)
        mine = (pl.col("problem") == row.problem) & (pl.col("index") >= 4) & (pl.col("index") < row.drawn - 1)
        right = scored[row.finder].filter(pl.col("correct") & mine)
        weight = np.exp((right[f"law_{other}"] - right[f"law_{row.finder}"]).to_numpy())
        assert row.estimate == pytest.approx(weight.sum() / (row.drawn - 1))
        assert row.unusable == 2 - right.height
        changed += right.height < 2
    assert changed


def test_no_mean_is_taken_over_problems_that_stopping_at_successes_has_chosen(tmp_path: Path, tiny: World) -> None:
    runs = [tiny.run(tmp_path / side, side, 64, seed=1, until=3) for side in SEEDS]
    found = report(runs[0], runs[1], at=4, first=16)
    assert found.cross.rows
    assert found.cross.both is None
    for reason in (found.cross.both_reason, found.leash.reason):
        assert "stopped at 3 successes, before 16 samples" in reason
        assert "--first 3" in reason
    assert not found.leash.divergences
    few = report(runs[0], runs[1], at=4, first=3)  # every record has three
    assert few.cross.both is not None
    assert few.cross.both.problems == len(problems())
    assert len(few.leash.divergences) == 2


def test_whole_samples_that_end_by_stop_texts_or_at_other_lengths_have_no_divergence(
    tmp_path: Path, tiny: World
) -> None:
    ways = {"plain": SamplingParams(max_tokens=3), "short": SamplingParams(max_tokens=2)}
    runs = {name: tiny.run(tmp_path / name, "before", 8, way) for name, way in ways.items()}
    runs["stop"] = tiny.run(tmp_path / "stop", "after", 8, SamplingParams(max_tokens=3, stop=("b",)))
    for other, words in (("short", "the token limits differ"), ("stop", "stop texts")):
        asked = question(at=4, replicates=200, allow=("decoding",))
        found = likelihood(runs["plain"], runs[other], LikelihoodRequest(first=8), asked)
        assert words in found.leash.reason
        assert not found.leash.divergences
    assert found.scored[1].frame.height
    assert (found.scored[1].retokenised, found.scored[1].checked) == (0, 0)  # only the end is not scored
    assert any("ends of its samples are not scored" in note for note in notes(found))
    assert not any("tokenised otherwise" in note for note in notes(found))
    assert "Neither cross-support nor the length of the leash" in finding(found)


def test_a_model_with_several_ends_is_no_leash_from_itself_and_none_of_its_texts_is_read_otherwise(
    tmp_path: Path,
) -> None:
    tiny = world(tmp_path / "ends")
    end, second = SPOKEN.index("<end>"), SPOKEN.index("d")
    for path in tiny.models.values():
        file = path / "generation_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": [end, second]}))
    samplers = {side: open_sampler(model_of(f"hf:{path}")) for side, path in tiny.models.items()}
    assert all(len(one.loaded.ends) == 2 for one in samplers.values())
    tiny = replace(tiny, samplers=samplers)
    runs = [tiny.run(tmp_path / name, "after", 24, seed=seed) for seed, name in enumerate(("one", "two"))]
    found = report(runs[0], runs[1], at=2, first=24)
    assert [one.retokenised for one in found.scored] == [0, 0]
    assert [one.sequence["all"].value for one in found.leash.divergences] == pytest.approx([0, 0], abs=1e-9)
    for row in found.cross.rows:
        assert row.estimate == pytest.approx(row.successes / row.drawn, rel=1e-3)
