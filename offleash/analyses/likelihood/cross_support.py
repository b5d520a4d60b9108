"""Cross-support: the chance that one model had on problems that only the other reached; and the KL between the models.

Both rest on the probability of whole completions under the two *laws*: a law is what a run was drawn from, a model with
its decoding (temperature, top-p, ...), so the decoding of each run must be known. With pi the law of the run that
reached a problem (the finder) and q the law of the other run, three numbers bound q's chance q(C) of a correct
completion:

* certain bound: the sum of q(y) over the distinct correct completions y that were seen. They exist, so q(C) is at least
  that, with no probability of error.
* estimate: the plain mean over the finder's n samples of R(y) q(y)/pi(y), with R = 1 where y is correct (importance
  sampling). Unbiased for q(C) within the support of pi. It is not divided by the sum of the weights: over correct
  samples alone that would tend to 1.
* 95% bound: .05 x estimate. By Markov's inequality a nonnegative unbiased estimate exceeds 20 times its mean in at most
  one draw of 20.

All three are lower bounds or have an unseen remainder: completions that the finder's samples do not show have no
weight. They can show that a problem was within reach of the other model, never that it was not. The arithmetic is in
`stats/likelihood.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.likelihood.models import SIDES, UNKNOWN_TOKEN_LIMIT, RunModel
from offleash.analyses.likelihood.perplexity_by_class import CELLS
from offleash.analyses.likelihood.samples import ScoredSamples
from offleash.comparing.per_problem import ProblemDetail
from offleash.data.tally import Float, Integer
from offleash.stats.intervals import Estimate, ratios, strata
from offleash.stats.likelihood import (
    MIN_EFFECTIVE,
    Reach,
    chance_within,
    distinct_mass,
    importance_mass,
    mass_of_both,
    problem_means,
    reach,
    trusted_bound,
)
from offleash.stats.support_classes import AFTER, BEFORE, epsilon

FINDER_BY_CLASS = {"E": AFTER, "S": BEFORE}  # class: the run that reached it; in question is the chance of the other


@dataclass(frozen=True)
class CrossSupportRow:
    """One problem that only one model reached, and what its correct samples say about the other's chance.

    The fields are the keys of the JSON (`cell` is its `class`).
    """

    problem: str
    cell: str  # E or S
    finder: str  # before or after
    drawn: int  # samples of the finder
    successes: int
    distinct: int  # different correct completions that were scored
    excluded: int  # of the finder's correct samples: the other's decoding cannot draw them (top-p, top-k)
    unusable: int  # of the finder's correct samples: not scored, scored in windows, or retokenised differently
    certain_bound: float  # the other's probability of the correct completions that were seen
    estimate: float  # by importance sampling; NaN where the draw stopped at the first success
    effective_samples: float  # (sum of weights)^2 / sum of squares: how many correct samples carry the estimate
    bound_95: float  # .05 x estimate; 95% holds for a problem before it is selected by its outcome
    chance_within_k: float  # at least this chance that k more samples of the other solve it
    reading: Reach
    reading_rests_on: (
        str | None
    )  # `certain_bound` where that alone gives the reading, else `estimate`; None: no reading
    other_drawn: int  # all samples of the other, which are more than k where k was chosen smaller
    other_successes: int

    @property
    def estimated(self) -> bool:
        """Whether `chance_within_k` rests on the 95% bound: that one is larger and enough samples carry it."""
        return self.effective_samples >= MIN_EFFECTIVE and self.bound_95 > self.certain_bound


@dataclass(frozen=True)
class BothRuns:
    """Chance of a correct sample, mean over problems of all classes: from own samples alone, and from both runs.

    Both estimates use the same correct samples: those whose probability is known under both laws.
    """

    problems: int
    samples: int  # first ones per problem and run; those without a verdict do not count as drawn
    unjudged: dict[str, int]  # before, after: of the first samples, those without a verdict
    unusable: dict[str, int]  # of the correct first samples, those in no estimate: in windows, or retokenised
    own: dict[str, Estimate]
    together: dict[str, Estimate]
    problem_P: tuple[str, ...]
    mixture_PR: Float


@dataclass(frozen=True)
class CrossSupport:
    """The chance of either model on the problems that only the other reached."""

    k: int
    epsilon: float
    rows: tuple[CrossSupportRow, ...]
    both: BothRuns | None
    reason: str = ""  # why nothing can be said
    both_reason: str = ""  # why the two runs together say nothing

    def count(self, cell: str, reading: Reach) -> int:
        """Problems of a class (E or S) that have this reading."""
        return sum(row.cell == cell and row.reading is reading for row in self.rows)


def cross_support(
    detail: ProblemDetail,
    scored: tuple[ScoredSamples, ScoredSamples],
    run_models: tuple[RunModel, RunModel],
    first: int,
) -> CrossSupport:
    """For every E and S problem the other model's chance; and for all problems the estimate from both runs.

    Args:
        detail: the comparison by problem, with its classes.
        scored: the scored samples of the run before and the run after.
        run_models: model and decoding of the two runs; without the decoding there is a `reason` and nothing else.
        first: samples per problem that were scored whatever their verdict.
    """
    k = detail.comparison.change.k
    no_support = CrossSupport(k, float(epsilon(k)), (), None)
    reason = _unknown_probabilities(run_models)
    if reason:
        return CrossSupport(no_support.k, no_support.epsilon, (), None, reason)
    rows = [row for cell, r in FINDER_BY_CLASS.items() for row in _class_rows(detail, cell, scored[r], r)]
    both_runs = _both_runs(detail, scored, run_models, first)
    both, why = (None, both_runs) if isinstance(both_runs, str) else (both_runs, "")
    return CrossSupport(no_support.k, no_support.epsilon, tuple(rows), both, both_reason=why)


def stopped_early(detail: ProblemDetail, run_models: tuple[RunModel, RunModel], first: int) -> str:
    """Why a mean over the first samples would be over samples that the outcome selected; empty where it is not."""
    tally = detail.tally
    n = int(min(first, *tally.budget_R))
    for r, run_model in enumerate(run_models):
        stopped = int((tally.stopped_PR[:, r] & (tally.drawn_PR[:, r] < n)).sum())
        if stopped:
            until = int(tally.until_R[r])
            return (
                f"{stopped:,} of {len(tally):,} problems of {run_model.run} stopped at {until:,} successes, before "
                f"{n:,} samples were drawn, so their first samples are selected by their outcome; use --first {until}"
            )
    return ""


def _unknown_probabilities(run_models: tuple[RunModel, RunModel]) -> str:
    """Why probabilities of whole completions are not known; empty where they are."""
    for run_model in run_models:
        if not run_model.known:
            return (
                f"{run_model.run} was imported without its decoding, so the ratios q(y)/pi(y) are not known; state it "
                "with --decoding, --temperature and --top-p"
            )
        if run_model.decoding.stop:
            return f"{run_model.run} was drawn with stop texts, so the probabilities of its completions are not known"
    return ""


def _class_rows(detail: ProblemDetail, cell: str, samples: ScoredSamples, r: int) -> list[CrossSupportRow]:
    """The rows of a class: the other's chance from the correct samples of the finder, run r."""
    tally, tally_row_P = detail.tally, np.flatnonzero(detail.class_k_P == cell)
    if not tally_row_P.size:
        return []
    row_numbers = pl.DataFrame({"tally_row": tally_row_P.astype(np.int64), "row": np.arange(tally_row_P.size)})
    right = samples.frame.filter("correct").join(row_numbers, on="tally_row").sort("row", "index")
    finder, other = f"law_{SIDES[r]}", f"law_{SIDES[1 - r]}"
    # Certain bound. A completion that was drawn several times counts once; one that a token limit cut is another
    # completion than the same text that ended by itself, hence `finish`.
    distinct = right.filter(pl.col(other).is_not_null()).unique(["row", "text", "finish"], maintain_order=True)
    bound_P = distinct_mass(distinct[other].to_numpy(), distinct["row"].to_numpy(), tally_row_P.size)
    until, stopped_P = int(tally.until_R[r]), tally.stopped_PR[tally_row_P, r]
    drawn_P, correct_P = tally.drawn_PR[tally_row_P, r], tally.correct_PR[tally_row_P, r]
    # Estimate. A record that stopped at a success has one weighing sample less (see _usable_samples).
    weighted_count_P = np.where(stopped_P, correct_P - 1, correct_P)
    usable_samples, n_P = _usable_samples(right, finder, other, until, stopped_P, drawn_P)
    mass = importance_mass(
        usable_samples[other].to_numpy(), usable_samples["own"].to_numpy(), usable_samples["row"].to_numpy(), n_P
    )
    # The reading from the better of the two bounds, and whether the certain one alone gives the same.
    k, low_P = detail.comparison.change.k, trusted_bound(bound_P, mass)
    chance_P, readings, certain_reach = chance_within(low_P, k), reach(low_P, k), reach(bound_P, k)
    counts = _counts_by_row(right, usable_samples, distinct, other, tally_row_P.size)
    return [
        CrossSupportRow(
            problem=str(tally.problem_P[tally_row]),
            cell=cell,
            finder=SIDES[r],
            drawn=int(drawn_P[row]),
            successes=int(correct_P[row]),
            distinct=int(counts["distinct"][row]),
            excluded=int(counts["excluded"][row]),
            unusable=max(0, int(weighted_count_P[row]) - int(counts["usable"][row])),
            certain_bound=float(bound_P[row]),
            estimate=float(mass.estimate_P[row]),
            effective_samples=float(mass.effective_P[row]),
            bound_95=float(mass.low_P[row]),
            chance_within_k=float(chance_P[row]),
            reading=readings[row],
            reading_rests_on=_reading_basis(readings[row], certain_reach[row]),
            other_drawn=int(tally.drawn_PR[tally_row, 1 - r]),
            other_successes=int(tally.correct_PR[tally_row, 1 - r]),
        )
        for row, tally_row in enumerate(tally_row_P)
    ]


def _reading_basis(reading: Reach, by_bound: Reach) -> str | None:
    """What a reading rests on; None where nothing can be said, which no bound shows."""
    if reading is Reach.OPEN:
        return None
    return "certain_bound" if reading is by_bound else "estimate"


def _usable_samples(
    right: pl.DataFrame,
    finder: str,
    other: str,
    until: int,
    stopped_P: np.ndarray,
    drawn_P: np.ndarray,
) -> tuple[pl.DataFrame, Float]:
    """The correct samples that have a weight, with the finder's log-probability of each, and the n of their mean.

    A text that tokenises differently from how it was drawn is another completion: it has no weight, so what is
    estimated is the mass of completions that survive decoding and encoding. A record that stopped at its m-th success,
    on sample N, is counted without that success, over N - 1: unbiased as (m-1)/(N-1) is (Haldane 1945); with m = 1
    nothing is left to estimate from (NaN). The last success is known by its index, N - 1, since some samples may have
    no score; records have no gaps.
    """
    known = pl.col("own").is_not_null() & pl.col(other).is_not_null()
    whole = right.with_columns(own=pl.col(finder)).filter(~pl.col("retokenised") & known)
    if not until:
        return whole, drawn_P.astype(np.float64)
    n_P = np.where(stopped_P, drawn_P - 1, drawn_P)
    ends = pl.DataFrame({"row": np.arange(len(n_P)), "end": n_P.astype(np.int64)})
    kept = whole.join(ends, on="row", maintain_order="left").filter(pl.col("index").cast(pl.Int64) < pl.col("end"))
    return kept, np.where(stopped_P & (until < 2), np.nan, n_P.astype(np.float64))


def _counts_by_row(
    right: pl.DataFrame, usable_samples: pl.DataFrame, distinct: pl.DataFrame, other: str, rows: int
) -> dict[str, np.ndarray]:
    """Per row: distinct completions, samples that the other's decoding excludes, and samples that have a weight."""

    def count(frame: pl.DataFrame) -> np.ndarray:
        return np.bincount(frame["row"].to_numpy(), minlength=rows)

    cut = right.filter((pl.col(other) == float("-inf")) & ~pl.col("retokenised"))
    return {"distinct": count(distinct), "excluded": count(cut), "usable": count(usable_samples)}


def _both_runs(
    detail: ProblemDetail,
    scored: tuple[ScoredSamples, ScoredSamples],
    run_models: tuple[RunModel, RunModel],
    first: int,
) -> BothRuns | str:
    """The chance of a correct sample under either law, from the first samples of both runs; or why there is none.

    Both runs' samples are drawn from a mixture of q and pi, so each correct sample weighs q / (n_q q + n_pi pi) (the
    balance heuristic). First samples, of all problems: none is selected by its outcome, so unlike the rows above the
    intervals hold as they are.
    """
    reason = stopped_early(detail, run_models, first)
    if reason:
        return reason
    tally, problems = detail.tally, len(detail.tally)
    n = int(min(first, *tally.budget_R))
    heads = [samples.frame.filter(pl.col("index") < n) for samples in scored]
    scored_PR, judged_PR = (
        _counts_of(frames, problems) for frames in (heads, [first_samples.filter("judged") for first_samples in heads])
    )
    # A problem counts where all of its first n samples are scored in both runs, and some of each have a verdict.
    known_P = (scored_PR == n).all(axis=1) & (judged_PR > 0).all(axis=1)
    if not known_P.any():
        return f"no problem has its first {n:,} samples scored and judged in both runs"
    weightable = [_with_both_logprobs(first_samples) for first_samples in heads]
    right = pl.concat(weightable)
    tally_row_S, logs = right["tally_row"].to_numpy(), [right[f"law_{side}"].to_numpy() for side in SIDES]
    n_PR = np.where(known_P[:, None], judged_PR, 0).astype(np.float64)
    mixture_PR = np.stack(
        [mass_of_both(logs[r], logs[1 - r], tally_row_S, n_PR[:, r], n_PR[:, 1 - r]) for r in (BEFORE, AFTER)], axis=1
    )
    possible = [
        frames.filter(pl.col(f"law_{side}").is_finite()) for frames, side in zip(weightable, SIDES, strict=True)
    ]
    hits_PR, right_PR = (
        _counts_of(frames, problems)
        for frames in (possible, [first_samples.filter("correct") for first_samples in heads])
    )
    # Samples that a run's own law excludes (possible only by rounding at the edge of top-p) are in neither estimate.
    own_rate_PR = np.divide(hits_PR, n_PR, out=np.zeros_like(n_PR), where=n_PR > 0)
    numerator_PQ = np.concatenate([own_rate_PR, mixture_PR], axis=1)
    denominator_PQ = np.repeat(known_P[:, None].astype(np.float64), 4, axis=1)
    question = detail.comparison.question
    value_Q, ends = ratios(numerator_PQ, denominator_PQ, strata(tally.benchmark_P), question.replicates, question.seed)
    estimates = [Estimate(float(value), interval) for value, interval in zip(value_Q, ends, strict=True)]
    return BothRuns(
        problems=int(known_P.sum()),
        samples=n,
        unjudged=_total_by_side((scored_PR - judged_PR)[known_P]),
        unusable=_total_by_side((right_PR - hits_PR)[known_P]),
        own=dict(zip(SIDES, estimates[:2], strict=True)),
        together=dict(zip(SIDES, estimates[2:], strict=True)),
        problem_P=tuple(str(problem) for problem in tally.problem_P[known_P]),
        mixture_PR=mixture_PR[known_P],
    )


def _counts_of(frames: Sequence[pl.DataFrame], problems: int) -> Integer:
    """How many samples of each problem the frames of both runs have."""
    return np.stack([np.bincount(frame["tally_row"].to_numpy(), minlength=problems) for frame in frames], axis=1)


def _total_by_side(count_PR: Integer) -> dict[str, int]:
    return dict(zip(SIDES, count_PR.sum(axis=0).tolist(), strict=True))


def _with_both_logprobs(samples: pl.DataFrame) -> pl.DataFrame:
    """Correct samples whose probability is known under both laws."""
    known = pl.col("law_before").is_not_null() & pl.col("law_after").is_not_null()
    kept = samples.filter(pl.col("correct") & ~pl.col("retokenised") & known)
    return kept.select("tally_row", "law_before", "law_after")


# The length of the leash: how far apart two models are as distributions of whole samples (KL divergence).


ALL = "all"


@dataclass(frozen=True)
class Divergence:
    """KL from one model to the other, in nats: over a problem's samples, then over problems."""

    of: str  # before or after: whose samples, and whose law is the first of the two
    problems: int
    samples: int
    sequence: dict[str, Estimate]  # of a whole sample, mean over problems, by class: all, P, E, S, O
    token: Estimate  # mean divergence of a sample over its mean length


@dataclass(frozen=True)
class Divergences:
    """Both divergences; `reason` says why there are none."""

    divergences: tuple[Divergence, ...]
    retokenised: int  # samples whose text is read as other tokens: counted by their text, under both models
    reason: str = ""


def leash(
    detail: ProblemDetail,
    scored: tuple[ScoredSamples, ScoredSamples],
    run_models: tuple[RunModel, RunModel],
    first: int,
) -> Divergences:
    """The sequence KL in both directions, over the first samples of each problem; or the reason why there is none.

    KL(p || q) is the mean over samples of p of log p(y) - log q(y). That holds only for samples at temperature 1 and
    top-p 1: otherwise they are not samples of the model, and q(y) may be 0, which makes the KL infinite.
    """
    for run_model in run_models:
        if not run_model.known:
            return Divergences((), 0, f"{run_model.run} was imported without its decoding")
        if not run_model.decoding.is_plain:
            decoding = run_model.decoding
            decoding_note = (
                f"{run_model.run} was drawn at temperature {decoding.temperature:g}, top-p {decoding.top_p:g}"
            )
            return Divergences(
                (),
                0,
                f"{decoding_note}: the KL divergence of two models needs samples at temperature 1, top-p 1, without "
                "top-k or min-p",
            )
        if run_model.decoding.stop:
            return Divergences(
                (), 0, f"{run_model.run} was drawn with stop texts, so the ends of its samples are not known"
            )
    reason = _token_limits_differ(run_models) or stopped_early(detail, run_models, first)
    if reason:
        return Divergences((), 0, reason)
    divergences = [_divergence(detail, samples, first) for samples in scored]
    heads = [_head(samples, first) for samples in scored]
    retokenised = sum(int(first_samples["retokenised"].sum()) for first_samples in heads)
    return Divergences(tuple(divergence for divergence in divergences if divergence is not None), retokenised)


def _token_limits_differ(run_models: tuple[RunModel, RunModel]) -> str:
    """Why whole samples of the two runs cannot be compared; empty where they can.

    A sample that is cut at another length is another event, so its probabilities cannot be set against each other.
    """
    lengths = [run_model.decoding.max_tokens for run_model in run_models]
    if lengths[0] == lengths[1]:
        return ""
    drawn = [f"{run_model.run} {'does not record its limit' if length == UNKNOWN_TOKEN_LIMIT else f'{length:,} tokens'}"
            for run_model, length in zip(run_models, lengths, strict=True)]  # fmt: skip
    return f"the token limits differ ({drawn[0]}, {drawn[1]}), so whole samples of the two runs cannot be compared"


def _head(samples: ScoredSamples, first: int) -> pl.DataFrame:
    """The first samples of each problem, none selected by its verdict, that fit into both models' contexts."""
    return samples.frame.filter((pl.col("index") < first) & pl.col("unselected") & ~pl.col("windowed"))


def _divergence(detail: ProblemDetail, samples: ScoredSamples, first: int) -> Divergence | None:
    """The mean over a run's samples of its own log-probability minus the other's, both as they were scored."""
    first_samples = _head(samples, first)
    if not first_samples.height:
        return None
    other = SIDES[1 - SIDES.index(samples.side)]
    rows = first_samples.with_columns(gap=pl.col(samples.side) - pl.col(other))
    problems, tally_row_S = len(detail.tally), rows["tally_row"].to_numpy()
    gap_P = problem_means(rows["gap"].to_numpy(), tally_row_S, problems)
    length_P = problem_means(rows[f"tokens_{samples.side}"].to_numpy(), tally_row_S, problems)
    known_P = np.isfinite(gap_P)
    kinds = [ALL, *(cell for cell in CELLS if (known_P & (detail.class_k_P == cell)).any())]
    # One column per class, and a last one whose denominator is tokens: all share the same resampled problems.
    in_class_PQ = np.stack([known_P if kind == ALL else known_P & (detail.class_k_P == kind) for kind in kinds], axis=1)
    numerator_PQ = np.concatenate([np.where(in_class_PQ, gap_P[:, None], 0.0), gap_P[:, None]], axis=1)
    denominator_PQ = np.concatenate([in_class_PQ.astype(np.float64), np.where(known_P, length_P, 0.0)[:, None]], axis=1)
    question = detail.comparison.question
    value_Q, ends = ratios(
        numerator_PQ, denominator_PQ, strata(detail.tally.benchmark_P), question.replicates, question.seed
    )
    estimates = [Estimate(float(value), interval) for value, interval in zip(value_Q, ends, strict=True)]
    return Divergence(
        samples.side, int(known_P.sum()), rows.height, dict(zip(kinds, estimates[:-1], strict=True)), estimates[-1]
    )
