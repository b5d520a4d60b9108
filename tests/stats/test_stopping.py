"""Stopping at the m-th success, from verdicts in rounds to p-values and intervals: what it serves is as good as the
full draw, and what it cannot serve refuses."""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.comparing.compare import compare
from offleash.comparing.evidence import evidence
from offleash.comparing.question import Question
from offleash.comparing.tally import tally
from offleash.data.run import Budget, Run
from offleash.data.tables import VERDICT, as_problems
from offleash.data.tally import Per, Tally, tally_of_counts
from offleash.drawing.schedule import chunks_for
from offleash.errors import OffleashError
from offleash.reporting.comparison import document
from offleash.stats.chance import retest
from offleash.stats.change import METRICS, support_change
from offleash.stats.curves import pass_curve
from offleash.stats.intervals import percentile_intervals
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.support_classes import reach_PRK
from tests.stats.test_known_worlds import World, same_model, sharpened, side_by_side, slack, truth

UNTIL = 5
CLASSES = ("P", "E", "S", "O")


def drawn_in_rounds(hit_PB: np.ndarray, until: int) -> np.ndarray:
    """Samples a problem: to the end of the round in which its until-th success lies, or to the budget."""
    chunks, budget, total_PB = chunks_for(until), hit_PB.shape[1], hit_PB.cumsum(axis=1)
    drawn_P, going_P, end = np.zeros(len(hit_PB), np.int64), np.ones(len(hit_PB), bool), 0
    while going_P.any() and end < budget:
        end = min(chunks.round_end(end), budget)
        drawn_P[going_P] = end
        going_P &= total_PB[:, end - 1] < until
    return drawn_P


def run_of(name: str, hit_PB: np.ndarray, until: int = 0, order_PB: np.ndarray | None = None) -> Run:
    """A run of these verdicts as a draw leaves it; `order` is the order in which the rows of a problem were written."""
    problems, budget = hit_PB.shape
    end_P = drawn_in_rounds(hit_PB, until) if until else np.full(problems, budget)
    index_PB = np.broadcast_to(np.arange(budget), hit_PB.shape) if order_PB is None else order_PB
    row, place = np.nonzero(index_PB < end_P[:, None])
    index = index_PB[row, place]
    verdict = np.where(hit_PB[row, index], "correct", "wrong")
    label = np.array([f"p{p:06d}" for p in range(problems)])
    frame = pl.DataFrame({"problem": label[row], "index": index.astype(np.uint32), "verdict": verdict})
    verdicts = frame.with_columns(pl.col("verdict").cast(VERDICT)).lazy()
    return Run(name, as_problems(pl.DataFrame({"problem": label})), verdicts, budget=Budget(budget, until))


def pair_of(hit_PRB: np.ndarray, until: int) -> Tally:
    return tally([run_of("before", hit_PRB[:, 0], until), run_of("after", hit_PRB[:, 1], until)]).tally


def records(hit_PRB: np.ndarray, until: int) -> Tally:
    """The tally of stopped records at once, for many studies; that `tally` builds the same is a test below."""
    total, budget = hit_PRB.cumsum(axis=2, dtype=np.int32), hit_PRB.shape[2]
    stopped = total[:, :, -1] >= until
    drawn = np.where(stopped, (total >= until).argmax(axis=2) + 1, budget)
    first = np.where(total[:, :, -1] > 0, hit_PRB.argmax(axis=2), -1)
    plain = tally_of_counts(drawn, np.where(stopped, until, total[:, :, -1]))
    return replace(
        plain,
        stopped_PR=stopped,
        first_PR=first,
        head=budget,
        budget_R=np.full(2, budget),
        until_R=np.full(2, until),
        ordered_R=np.ones(2, bool),
    )


def draws(world: World, problems: int, budget: int, seed: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rate = world[rng.integers(0, len(world), problems)]
    return np.asarray(rng.random((problems, 2, budget), dtype=np.float32) < rate[:, :, None])


def cells_of(pair: Tally, k: int | None = None) -> tuple[float, ...]:
    change = support_change(pair, "before", "after", k=k, replicates=20)
    return tuple(getattr(change, name) for name in CLASSES)


# (a) the same table


@given(st.integers(1, 6), st.integers(1, 70), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_rounds_give_the_table_of_the_full_draw_of_the_same_indices(until: int, budget: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hit_PRB = rng.random((25, 2, budget)) < rng.beta(0.2, 1, (25, 2, 1))
    early, full = pair_of(hit_PRB, until), pair_of(hit_PRB, 0)
    assert early.head == full.head == budget
    assert cells_of(early) == cells_of(full)
    assert early.first_PR.tolist() == full.first_PR.tolist()
    actual, whole = (
        evidence(item, support_change(item, "before", "after", replicates=20), replicates=20) for item in (early, full)
    )
    assert (actual.E, actual.S, actual.mcnemar_p) == (whole.E, whole.S, whole.mcnemar_p)


def test_the_records_of_the_simulations_below_are_those_that_runs_give() -> None:
    hit_PRB = draws(sharpened(), 300, 96, [1])
    built, made = pair_of(hit_PRB, UNTIL), records(hit_PRB, UNTIL)
    for name in ("drawn_PR", "correct_PR", "stopped_PR", "first_PR", "budget_R", "until_R"):
        assert getattr(built, name).tolist() == getattr(made, name).tolist(), name
    assert built.head == made.head


def test_runs_with_different_stops_still_have_the_table_of_the_full_draw() -> None:
    hit_PRB = draws(sharpened(), 200, 64, [2])
    runs = [run_of("before", hit_PRB[:, 0], UNTIL), run_of("after", hit_PRB[:, 1], 2)]
    assert cells_of(tally(runs).tally) == cells_of(pair_of(hit_PRB, 0))
    runs[1] = run_of("after", hit_PRB[:, 1])
    assert cells_of(tally(runs).tally) == cells_of(pair_of(hit_PRB, 0))


# (b) pass@k


@pytest.mark.parametrize("until", [1, 2, 5])
def test_pass_at_k_of_stopped_runs_has_no_bias(until: int) -> None:
    world, k_K = sharpened(), np.array([1, 2, 5, 16, 47, 64])
    value = reach_PRK(records(draws(world, 30_000, 64, [3, until]), until), k_K)
    true = np.array([[truth(world, int(k))[name] for k in k_K] for name in ("before", "after")])
    error = value.std(axis=0) / np.sqrt(len(value))
    assert (np.abs(value.mean(axis=0) - true) <= 4 * error).all()


def test_plain_counts_of_stopped_runs_would_be_biased() -> None:
    early = records(draws(same_model(), 30_000, 64, [4]), UNTIL)
    plain = pass_at_k(early.drawn_PR, early.correct_PR, 1)
    true = truth(same_model(), 1)["before"]
    assert plain.mean() - true > 5 * plain.std() / np.sqrt(plain.size)


def test_pass_at_k_of_stopped_runs_agrees_with_the_full_draw_within_its_interval() -> None:
    hit_PRB = draws(sharpened(), 400, 128, [5])
    early, full = pass_curve(pair_of(hit_PRB, UNTIL), 1000), pass_curve(pair_of(hit_PRB, 0), 1000)
    for name in ("before", "after"):
        first, whole = early.runs[name], full.runs[name]
        assert ((first.low_K <= whole.value_K) & (whole.value_K <= first.high_K)).all()
        assert first.value_K[-1] == whole.value_K[-1]


# (c) the same model twice: sizes and coverage

LONG = [
    pytest.param(problems, studies, marks=pytest.mark.slow, id=f"{problems}-long")
    for problems, studies in ((30, 2000), (100, 2000), (500, 1000))
]
SHORT = [pytest.param(30, 300, id="30-short"), pytest.param(100, 200, id="100-short"), pytest.param(500, 60, id="500")]
studies_of = pytest.mark.parametrize(("problems", "studies"), [*SHORT, *LONG])


def many(world: World, problems: int, studies: int, budget: int, seed: int) -> Tally:
    """Stopped records of many studies, one below the other, made in parts to spare memory."""
    size = max(1, 50_000 // problems)
    parts = [
        records(draws(world, min(size, studies - start) * problems, budget, [seed, problems, start]), UNTIL)
        for start in range(0, studies, size)
    ]
    drawn, correct, stopped, first = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("drawn_PR", "correct_PR", "stopped_PR", "first_PR")
    )
    plain = tally_of_counts(drawn, correct)
    limits = parts[0]
    return replace(
        plain,
        stopped_PR=stopped,
        first_PR=first,
        head=budget,
        budget_R=limits.budget_R,
        until_R=limits.until_R,
        ordered_R=limits.ordered_R,
    )


@studies_of
def test_two_stopped_runs_of_one_model_are_called_changed_no_more_often_than_is_said(
    problems: int, studies: int
) -> None:
    whole = many(same_model(), problems, studies, 64, 6)
    p, listed, certain = [], [], []
    for number in range(studies):
        pair = whole.take(np.arange(number * problems, (number + 1) * problems))
        result = evidence(pair, support_change(pair, "before", "after", replicates=2), replicates=2)
        assert result.mcnemar_p is not None
        p.append(result.mcnemar_p)
        listed.append([bool(result.lost), bool(result.gained)])
        certain.append([bool(result.losses_at_least), bool(result.gains_at_least)])
    for level in (0.01, 0.05, 0.1):
        assert np.mean(np.array(p) <= level) <= level + slack(level, studies)
    for share in (*np.mean(listed, axis=0), *np.mean(certain, axis=0)):
        assert share <= 0.05 + slack(0.05, studies)


@studies_of
@pytest.mark.parametrize("k", [16, 64], ids=["thinned", "whole budget"])
def test_intervals_of_two_stopped_runs_of_one_model_hold_the_value(k: int, problems: int, studies: int) -> None:
    world, held = same_model(), dict.fromkeys((*METRICS, "difference"), 0)
    true, whole = truth(world, k), many(world, problems, studies, 64, 7)
    for cells in side_by_side(whole, problems, k, np.zeros(problems, int)):
        sums = cells.sums(1000 if studies <= 300 else 2000)
        for name in held:
            estimate, replicate = sums.ratio(name)
            ends = percentile_intervals(replicate, estimate)
            held[name] += sum(end.low - 1e-12 <= true[name] <= end.high + 1e-12 for end in ends)
    for name, count in held.items():
        assert count / studies >= 0.93 - slack(0.93, studies), (name, count / studies)
        if k == 64:  # thinned, the pseudo-problems make small studies cautious, stopped or not: NSCR .9955 and .9985
            assert count / studies <= 0.98 + slack(0.98, studies), (name, count / studies)


@pytest.mark.slow
@pytest.mark.parametrize("problems", [100, 500])
def test_retention_and_gain_of_two_stopped_runs_of_one_model_are_one_and_zero(problems: int) -> None:
    studies = 600
    whole = many(same_model(), problems, studies, 64, 8)
    parts = (whole.take(np.arange(n * problems, (n + 1) * problems)) for n in range(studies))
    actual = [retest(pair, 32, 1000) for pair in parts]
    gain = np.array([item.gain for item in actual])
    assert abs(gain.mean()) <= 4 * gain.std() / np.sqrt(studies)
    assert np.mean([item.net_ratio for item in actual]) == pytest.approx(1, abs=0.02)
    held = [item.gain_interval.low <= 0 <= item.gain_interval.high for item in actual]
    assert np.mean(held) >= 0.93 - slack(0.93, studies)


# (d) index order, not order of arrival


def arrival(hit_B: np.ndarray, length_B: np.ndarray, at_once: int) -> list[int]:
    """Indices in the order in which samples finish when so many are drawn at once."""
    flight = [(float(length_B[i]), i) for i in range(at_once)]
    heapify(flight)
    order = []
    for following in range(at_once, len(hit_B)):
        order.append(heapreplace(flight, (flight[0][0] + float(length_B[following]), following))[1])
    return order + [i for _, i in sorted(flight)]


def test_short_correct_samples_that_finish_first_do_not_raise_the_rate() -> None:
    """Wrong samples of twice the length, 32 at once: counted as they arrive, .05 reads about .064."""
    rng, problems, budget, rate = np.random.default_rng(9), 4000, 256, 0.05
    hit_PB = rng.random((problems, budget)) < rate
    length_PB = rng.exponential(1.0, hit_PB.shape) * np.where(hit_PB, 1.0, 2.0)
    order_PB = np.array([arrival(hits, length, 32) for hits, length in zip(hit_PB, length_PB, strict=True)])
    arrived_PB = np.take_along_axis(hit_PB, order_PB, axis=1)
    naive = records(np.stack([arrived_PB, arrived_PB], axis=1), UNTIL)
    ours = tally([run_of("run", hit_PB, UNTIL, order_PB)]).tally
    result = np.array([1])
    by_arrival, by_index = reach_PRK(naive, result)[:, 0, 0], reach_PRK(ours, result)[:, 0, 0]
    assert by_arrival.mean() > 0.06
    assert abs(by_index.mean() - rate) <= 4 * by_index.std() / np.sqrt(problems)


def test_the_record_does_not_depend_on_the_order_in_which_rows_were_written() -> None:
    hit_PB = draws(sharpened(), 100, 64, [10])[:, 0]
    order_PB = np.argsort(np.random.default_rng(10).random(hit_PB.shape), axis=1)
    shuffled, plain = (tally([run_of("run", hit_PB, UNTIL, order)]).tally for order in (order_PB, None))
    for name in ("drawn_PR", "correct_PR", "stopped_PR", "first_PR"):
        assert getattr(shuffled, name).tolist() == getattr(plain, name).tolist()


# (e) what refuses


def stopped_runs() -> tuple[Run, Run]:
    hit_PRB = draws(sharpened(), 40, 64, [11])
    return run_of("before", hit_PRB[:, 0], UNTIL), run_of("after", hit_PRB[:, 1], UNTIL)


@pytest.mark.parametrize("rule", ["above", "confident", "posterior", "certified"])
def test_rules_that_need_every_sample_refuse_a_stopped_run(rule: str) -> None:
    with pytest.raises(OffleashError, match=r"success 5\. Use rule 'seen'"):
        support_change(tally(stopped_runs()).tally, "before", "after", rule=rule)


def test_dropping_unread_samples_and_counting_answers_refuse_a_stopped_run() -> None:
    with pytest.raises(OffleashError, match="stopped early"):
        compare(*stopped_runs(), Question(drop_unread=True, replicates=50))
    for per in (Per.ANSWER, Per.SOLUTION):
        with pytest.raises(OffleashError, match="--per problem"):
            compare(*stopped_runs(), Question(per=per, replicates=50))


def test_a_comparison_of_stopped_runs_leaves_out_what_they_cannot_serve() -> None:
    result = compare(*stopped_runs(), Question(replicates=50))
    assert result.evidence.null is None
    assert "not exchangeable" in str(result.evidence.null_reason)
    assert not result.evidence.confirmation
    assert not result.evidence.fallen
    assert not result.evidence.risen
    assert result.diversity is None
    assert result.graded is None
    assert not result.forecasts
    assert result.guessing.floor is None
    assert result.evidence.retest is not None
    told = document([result])
    for part in ("diversity", "forecast", "guessing", "max_at_k"):
        assert "'reason': '" in str(told[part]), part
    assert "'cover': {'reason': '" in str(told["pass_at_k"])


def test_a_stopped_run_cut_at_a_smaller_budget_has_no_lists() -> None:
    """A record of 64 holds successes beyond k = 16: the p of a loss is for the whole budget."""
    pair = tally(stopped_runs(), at=16).tally
    result = evidence(pair, support_change(pair, "before", "after", k=16, replicates=50), replicates=50)
    assert result.losses_at_least is None
    assert "beyond k = 16" in str(result.bound_reason)
    assert not result.lost
