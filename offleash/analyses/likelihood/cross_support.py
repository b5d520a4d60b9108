"""Cross-support: the chance that one model had on problems that only the other reached; and the KL between the models.

Both rest on the probability of whole samples under the two models, so the decoding of each run must be known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.likelihood.models import SIDES, UNLIMITED, RunModel
from offleash.analyses.likelihood.perplexity_by_class import CELLS
from offleash.analyses.likelihood.samples import ScoredSamples
from offleash.comparing.per_problem import ProblemDetail
from offleash.data.tally import Float, Integer
from offleash.stats.intervals import Estimate, Interval, ratios, strata
from offleash.stats.likelihood import (
    ENOUGH,
    Reach,
    chance_within,
    distinct_mass,
    mass_of_both,
    problem_means,
    reach,
    trusted_bound,
    weighed_mass,
)
from offleash.stats.support_classes import AFTER, BEFORE, epsilon

FINDER = {"E": AFTER, "S": BEFORE}  # class: who reached it; the question is what chance the other had


@dataclass(frozen=True)
class CrossSupportRow:
    """One problem that only one model reached, and what its right samples say of the other's chance."""

    problem: str
    cell: str  # E or S
    finder: str  # before or after
    drawn: int  # samples of the finder
    successes: int
    distinct: int  # different right completions that were scored
    excluded: int  # of the finder's right samples: the other's law never gives them
    unusable: int  # of the finder's right samples: not scored, read in windows, or read as other tokens
    bound: float  # certain: the mass of the right completions that were seen
    estimate: float  # by importance sampling; NaN where the draw stopped at the first success
    effective: float  # right samples that carry the estimate
    low: float  # with 95% confidence, from the estimate, before problems are chosen by what came
    again: float  # at least this chance that k more samples of the other show it
    reading: Reach
    certain: bool  # whether the reading follows from the certain bound alone
    other_drawn: int  # all samples of the other, which are more than k where k was chosen smaller
    other_successes: int

    @property
    def estimated(self) -> bool:
        """Whether `again` rests on the 95% bound."""
        return self.effective >= ENOUGH and self.low > self.bound


@dataclass(frozen=True)
class BothRuns:
    """Chance of a right sample, mean over problems whatever their class: own samples alone, and both runs' together.

    Both are of the same right samples: those whose probability is known under both laws.
    """

    problems: int
    samples: int  # first ones of each run, a problem; those without a verdict do not count as drawn
    unjudged: dict[str, int]  # before, after: of the first samples, those without a verdict
    unusable: dict[str, int]  # of the right first samples, those in no estimate: read in windows or as other tokens
    own: dict[str, tuple[float, Interval]]
    together: dict[str, tuple[float, Interval]]
    problem_P: tuple[str, ...]
    together_PR: Float


@dataclass(frozen=True)
class CrossSupport:
    """What either model could have done on the problems that only the other reached."""

    k: int
    epsilon: float
    rows: tuple[CrossSupportRow, ...]
    both: BothRuns | None
    reason: str = ""  # why nothing can be said
    both_reason: str = ""  # why the two runs together say nothing

    def count(self, cell: str, reading: Reach) -> int:
        return sum(one.cell == cell and one.reading is reading for one in self.rows)


def cross_support(
    told: ProblemDetail, scored: tuple[ScoredSamples, ScoredSamples], laws: tuple[RunModel, RunModel], first: int
) -> CrossSupport:
    """For every E and S problem the other model's chance; and for all problems the estimate from both runs."""
    k = told.comparison.change.k
    nothing = CrossSupport(k, float(epsilon(k)), (), None)
    reason = _unlawful(laws)
    if reason:
        return CrossSupport(nothing.k, nothing.epsilon, (), None, reason)
    rows = [row for cell, r in FINDER.items() for row in _crossed(told, cell, scored[r], r)]
    together = _both(told, scored, laws, first)
    both, why = (None, together) if isinstance(together, str) else (together, "")
    return CrossSupport(nothing.k, nothing.epsilon, tuple(rows), both, both_reason=why)


def stopped_early(told: ProblemDetail, laws: tuple[RunModel, RunModel], first: int) -> str:
    """Why a mean over the first samples would be one over problems that the outcome chose; empty where it is not."""
    tally = told.tally
    n = int(min(first, *tally.budget_R))
    for r, law in enumerate(laws):
        early = int((tally.stopped_PR[:, r] & (tally.drawn_PR[:, r] < n)).sum())
        if early:
            until = int(tally.until_R[r])
            return (
                f"{early:,} of {len(tally):,} problems of {law.run} stopped at success {until:,}, before {n:,} samples "
                f"were drawn, so their first samples are chosen by what came; with --first {until} none are"
            )
    return ""


def _unlawful(laws: tuple[RunModel, RunModel]) -> str:
    """Why probabilities of whole completions are not known; empty where they are."""
    for law in laws:
        if not law.known:
            return (
                f"{law.run} was imported and does not say how it was drawn, so q(y)/pi(y) is not known; say it with "
                "--decoding, --temperature and --top-p"
            )
        if law.decoding.stop:
            return f"{law.run} was drawn with stop texts, so nothing says what its completions end with"
    return ""


def _crossed(told: ProblemDetail, cell: str, found: ScoredSamples, r: int) -> list[CrossSupportRow]:
    """The problems of a class, with the other's chance from the finder's right samples."""
    tally, place_P = told.tally, np.flatnonzero(told.class_P == cell)
    if not place_P.size:
        return []
    new_place = pl.DataFrame({"place": place_P.astype(np.int64), "row": np.arange(place_P.size)})
    right = found.frame.filter("correct").join(new_place, on="place").sort("row", "index")
    finder, other = f"law_{SIDES[r]}", f"law_{SIDES[1 - r]}"
    distinct = right.filter(pl.col(other).is_not_null()).unique(["row", "text", "finish"], maintain_order=True)
    bound_P = distinct_mass(distinct[other].to_numpy(), distinct["row"].to_numpy(), place_P.size)
    until, stopped_P = int(tally.until_R[r]), tally.stopped_PR[place_P, r]
    drawn_P, correct_P = tally.drawn_PR[place_P, r], tally.correct_PR[place_P, r]
    most_P = np.where(stopped_P, correct_P - 1, correct_P)
    usable, n_P = _usable(right, finder, other, until, stopped_P, drawn_P)
    mass = weighed_mass(usable[other].to_numpy(), usable["own"].to_numpy(), usable["row"].to_numpy(), n_P)
    k, low_P = told.comparison.change.k, trusted_bound(bound_P, mass)
    again_P, readings, certain = chance_within(low_P, k), reach(low_P, k), reach(bound_P, k)
    counted = _counted(right, usable, distinct, other, place_P.size)
    return [
        CrossSupportRow(
            problem=str(tally.problem_P[place]),
            cell=cell,
            finder=SIDES[r],
            drawn=int(drawn_P[row]),
            successes=int(correct_P[row]),
            distinct=int(counted["distinct"][row]),
            excluded=int(counted["excluded"][row]),
            unusable=max(0, int(most_P[row]) - int(counted["usable"][row])),
            bound=float(bound_P[row]),
            estimate=float(mass.estimate_P[row]),
            effective=float(mass.effective_P[row]),
            low=float(mass.low_P[row]),
            again=float(again_P[row]),
            reading=readings[row],
            certain=readings[row] is certain[row],
            other_drawn=int(tally.drawn_PR[place, 1 - r]),
            other_successes=int(tally.correct_PR[place, 1 - r]),
        )
        for row, place in enumerate(place_P)
    ]


def _usable(
    right: pl.DataFrame,
    finder: str,
    other: str,
    until: int,
    stopped_P: np.ndarray,
    drawn_P: np.ndarray,
) -> tuple[pl.DataFrame, Float]:
    """The right samples that weigh, with the finder's log-probability of each, and the samples they are a mean over.

    A text that is read as other tokens than were drawn is another completion: it weighs nothing, so that what is
    estimated is the mass of completions that their texts give back. A record that stopped at its m-th success, on
    sample N, is counted without that success, over N - 1: unbiased as (m-1)/(N-1) is (Haldane 1945). Which success that
    is its index tells, since some may have no score; records have no gaps.
    """
    known = pl.col("own").is_not_null() & pl.col(other).is_not_null()
    whole = right.with_columns(own=pl.col(finder)).filter(~pl.col("retokenised") & known)
    if not until:
        return whole, drawn_P.astype(np.float64)
    n_P = np.where(stopped_P, drawn_P - 1, drawn_P)
    ends = pl.DataFrame({"row": np.arange(len(n_P)), "end": n_P.astype(np.int64)})
    kept = whole.join(ends, on="row", maintain_order="left").filter(pl.col("index").cast(pl.Int64) < pl.col("end"))
    return kept, np.where(stopped_P & (until < 2), np.nan, n_P.astype(np.float64))


def _counted(
    right: pl.DataFrame, usable: pl.DataFrame, distinct: pl.DataFrame, other: str, rows: int
) -> dict[str, np.ndarray]:
    def count(frame: pl.DataFrame) -> np.ndarray:
        return np.bincount(frame["row"].to_numpy(), minlength=rows)

    cut = right.filter((pl.col(other) == float("-inf")) & ~pl.col("retokenised"))
    return {"distinct": count(distinct), "excluded": count(cut), "usable": count(usable)}


def _both(
    told: ProblemDetail, scored: tuple[ScoredSamples, ScoredSamples], laws: tuple[RunModel, RunModel], first: int
) -> BothRuns | str:
    """The chance of a right sample under either law, from the first samples of both runs: not chosen by what came.

    Or why there is none.
    """
    reason = stopped_early(told, laws, first)
    if reason:
        return reason
    tally, problems = told.tally, len(told.tally)
    n = int(min(first, *tally.budget_R))
    heads = [one.frame.filter(pl.col("index") < n) for one in scored]
    have_PR, judged_PR = (_counts_of(some, problems) for some in (heads, [head.filter("judged") for head in heads]))
    known_P = (have_PR == n).all(axis=1) & (judged_PR > 0).all(axis=1)
    if not known_P.any():
        return f"no problem has its first {n:,} samples scored in both runs and a verdict on some of them"
    weighing = [_weighing(head) for head in heads]
    right = pl.concat(weighing)
    place_S, logs = right["place"].to_numpy(), [right[f"law_{side}"].to_numpy() for side in SIDES]
    n_PR = np.where(known_P[:, None], judged_PR, 0).astype(np.float64)
    together_PR = np.stack(
        [mass_of_both(logs[r], logs[1 - r], place_S, n_PR[:, r], n_PR[:, 1 - r]) for r in (BEFORE, AFTER)], axis=1
    )
    possible = [some.filter(pl.col(f"law_{side}").is_finite()) for some, side in zip(weighing, SIDES, strict=True)]
    hits_PR, right_PR = (_counts_of(some, problems) for some in (possible, [head.filter("correct") for head in heads]))
    own_PR = np.divide(hits_PR, n_PR, out=np.zeros_like(n_PR), where=n_PR > 0)
    above_PQ = np.concatenate([own_PR, together_PR], axis=1)
    below_PQ = np.repeat(known_P[:, None].astype(np.float64), 4, axis=1)
    asked = told.comparison.question
    value_Q, ends = ratios(above_PQ, below_PQ, strata(tally.benchmark_P), asked.replicates, asked.seed)
    pairs = [(float(value), interval) for value, interval in zip(value_Q, ends, strict=True)]
    return BothRuns(
        problems=int(known_P.sum()),
        samples=n,
        unjudged=_by_side((have_PR - judged_PR)[known_P]),
        unusable=_by_side((right_PR - hits_PR)[known_P]),
        own=dict(zip(SIDES, pairs[:2], strict=True)),
        together=dict(zip(SIDES, pairs[2:], strict=True)),
        problem_P=tuple(str(one) for one in tally.problem_P[known_P]),
        together_PR=together_PR[known_P],
    )


def _counts_of(frames: Sequence[pl.DataFrame], problems: int) -> Integer:
    """How many samples of each problem the frames of both runs have."""
    return np.stack([np.bincount(one["place"].to_numpy(), minlength=problems) for one in frames], axis=1)


def _by_side(count_PR: Integer) -> dict[str, int]:
    return dict(zip(SIDES, count_PR.sum(axis=0).tolist(), strict=True))


def _weighing(head: pl.DataFrame) -> pl.DataFrame:
    """Right samples whose probability is known under both laws."""
    known = pl.col("law_before").is_not_null() & pl.col("law_after").is_not_null()
    kept = head.filter(pl.col("correct") & ~pl.col("retokenised") & known)
    return kept.select("place", "law_before", "law_after")


# The length of the leash: how far apart two models are as distributions of whole samples (KL divergence).


ALL = "all"


@dataclass(frozen=True)
class Divergence:
    """KL from one model to the other, in nats: over a problem's samples, then over problems."""

    of: str  # before or after: whose samples, and whose law is the first of the two
    problems: int
    samples: int
    sequence: dict[str, Estimate]  # of a whole sample, by class: all, P, E, S, O
    token: Estimate  # mean divergence of a sample over its mean length


@dataclass(frozen=True)
class Divergences:
    """Both divergences; `reason` says why there are none."""

    divergences: tuple[Divergence, ...]
    retokenised: int  # samples whose text is read as other tokens: counted by their text, under both models
    reason: str = ""


def leash(
    told: ProblemDetail, scored: tuple[ScoredSamples, ScoredSamples], laws: tuple[RunModel, RunModel], first: int
) -> Divergences:
    """The sequence KL of both directions, over the first samples of each problem."""
    for law in laws:
        if not law.known:
            return Divergences((), 0, f"{law.run} was imported and does not say how it was drawn")
        if not law.decoding.plain:
            how = f"{law.run} was drawn at temperature {law.decoding.temperature:g}, top-p {law.decoding.top_p:g}"
            return Divergences(
                (), 0, f"{how}: a divergence of the models needs samples at temperature 1 and top-p 1, uncut"
            )
        if law.decoding.stop:
            return Divergences((), 0, f"{law.run} was drawn with stop texts, so nothing says what its samples end with")
    reason = _other_lengths(laws) or stopped_early(told, laws, first)
    if reason:
        return Divergences((), 0, reason)
    found = [_divergence(told, one, first) for one in scored]
    heads = [_head(one, first) for one in scored]
    retokenised = sum(int(head["retokenised"].sum()) for head in heads)
    return Divergences(tuple(one for one in found if one is not None), retokenised)


def _other_lengths(laws: tuple[RunModel, RunModel]) -> str:
    """Why whole samples of the two runs are not the same thing; empty where they are."""
    lengths = [law.decoding.max_tokens for law in laws]
    if lengths[0] == lengths[1]:
        return ""
    told = [f"{law.run} {'at a length it does not say' if length == UNLIMITED else f'at {length:,} tokens'}"
            for law, length in zip(laws, lengths, strict=True)]  # fmt: skip
    return f"samples were cut at different lengths ({told[0]}, {told[1]}), so whole samples of one are not the other's"


def _head(found: ScoredSamples, first: int) -> pl.DataFrame:
    """The first samples of each problem that were read whole."""
    return found.frame.filter((pl.col("index") < first) & pl.col("unchosen") & ~pl.col("windowed"))


def _divergence(told: ProblemDetail, found: ScoredSamples, first: int) -> Divergence | None:
    """The mean over a run's samples of its own log-probability minus the other's, both as they were scored."""
    head = _head(found, first)
    if not head.height:
        return None
    other = SIDES[1 - SIDES.index(found.side)]
    rows = head.with_columns(gap=pl.col(found.side) - pl.col(other))
    problems, place_S = len(told.tally), rows["place"].to_numpy()
    gap_P = problem_means(rows["gap"].to_numpy(), place_S, problems)
    length_P = problem_means(rows[f"tokens_{found.side}"].to_numpy(), place_S, problems)
    known_P = np.isfinite(gap_P)
    kinds = [ALL, *(cell for cell in CELLS if (known_P & (told.class_P == cell)).any())]
    in_PQ = np.stack([known_P if kind == ALL else known_P & (told.class_P == kind) for kind in kinds], axis=1)
    above_PQ = np.concatenate([np.where(in_PQ, gap_P[:, None], 0.0), gap_P[:, None]], axis=1)
    below_PQ = np.concatenate([in_PQ.astype(np.float64), np.where(known_P, length_P, 0.0)[:, None]], axis=1)
    asked = told.comparison.question
    value_Q, ends = ratios(above_PQ, below_PQ, strata(told.tally.benchmark_P), asked.replicates, asked.seed)
    every = [Estimate(float(value), interval) for value, interval in zip(value_Q, ends, strict=True)]
    return Divergence(found.side, int(known_P.sum()), rows.height, dict(zip(kinds, every[:-1], strict=True)), every[-1])
