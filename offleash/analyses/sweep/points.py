"""What a model reaches at each decoding of a sweep: pass@1, pass@k, entropies, and samples that could not be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from offleash.comparing.answers import answers
from offleash.comparing.tally import AlignedTally
from offleash.data.run import Run
from offleash.samplers.sampler import SamplingParams
from offleash.stats.binomials import Float, Integer
from offleash.stats.diversity import entropy_rarefied
from offleash.stats.intervals import Estimate, mean_of, share_of, strata
from offleash.stats.support_classes import reach_PRK


@dataclass(frozen=True)
class SweepPoint:
    """A model at a decoding. Entropies in nats, None where a backend gives none."""

    label: str
    decoding: SamplingParams
    folder: Path
    pass_1: Estimate
    pass_k: Estimate
    reached: float  # problems; a fraction where more than k samples were drawn and k of them are meant
    token_entropy: Estimate | None  # of the distribution drawn from: mean over tokens, then samples, then problems
    answer_entropy: Estimate | None  # unread as one class, at k samples of each problem
    unread: float  # shares of all samples
    failed: float
    truncated: float


@dataclass(frozen=True)
class PointLocation:
    """A point before its numbers: the model, the decoding, and the run folder."""

    label: str
    decoding: SamplingParams
    folder: Path


def points(
    locations: Sequence[PointLocation], runs: Sequence[Run], aligned: AlignedTally, k: int
) -> tuple[SweepPoint, ...]:
    """The numbers of every run of a sweep, over the problems that all of them have.

    Args:
        locations: model, decoding and folder of each run.
        runs: the runs in the same order.
        aligned: their tally, aligned; column r belongs to run r.
        k: the budget of `pass_k`; where more was drawn, the expectation over k of the samples.
    """
    tally, stratum_P = aligned.tally, strata(aligned.tally.benchmark_P)
    reach = reach_PRK(tally, np.array([1, k]))
    answer_counts = answers(runs, aligned)
    result = []
    for r, (location, run) in enumerate(zip(locations, runs, strict=True)):
        drawn = max(int(tally.drawn_PR[:, r].sum()), 1)
        shares = (int(count[:, r].sum()) / drawn for count in (tally.unread_PR, tally.failed_PR, tally.truncated_PR))
        token_P = token_entropy(run, aligned, r, k)
        answer_P = None
        if answer_counts is not None:  # an answer of null is that of an unread sample: code -1, a class of its own
            problem_A, count_A = answer_counts[r].problem_A, answer_counts[r].count_A
            answer_P = entropy_rarefied(*_merged_counts(count_A, problem_A, answer_counts[r].answer_A), len(tally), k)
        result.append(
            SweepPoint(
                *(location.label, location.decoding, location.folder),
                share_of(reach[:, r, 0], stratum_P),
                share_of(reach[:, r, 1], stratum_P),
                float(reach[:, r, 1].sum()),
                None if token_P is None else mean_of(token_P, stratum_P),
                None if answer_P is None else mean_of(answer_P, stratum_P),
                *shares,
            )
        )
    return tuple(result)


def token_entropy(run: Run, aligned: AlignedTally, r: int, k: int) -> Float | None:
    """Entropy per token of the distribution drawn from, for each problem; None where a sample lacks it.

    Each sample counts once whatever its length: the mean over its tokens, then over samples.
    """
    if run.samples is None:
        return None
    # Of the first k samples; one without tokens has no entropy per token.
    samples = run.samples.filter((pl.col("index") < k) & (pl.col("tokens") > 0))
    each = (pl.col("entropy_sampled") / pl.col("tokens")).alias("entropy")
    means = samples.group_by("problem").agg(each.mean(), each.null_count().alias("unknown"))
    per_problem = means.collect(engine="streaming")
    named = per_problem.rename({"problem": "own"}).join(aligned.own[r], on="own")
    rows = aligned.problems.select("problem").join(named, on="problem", how="left", maintain_order="left")
    # All or nothing: a mean over the samples that happen to have entropies would be over a selection.
    if not rows.height or rows["unknown"].fill_null(1).sum():
        return None
    return rows["entropy"].to_numpy().astype(np.float64)


def _merged_counts(count_A: Integer, problem_A: Integer, answer_A: Integer) -> tuple[Integer, Integer]:
    """Counts of (problem, answer) pairs, each once: the same answer may be listed under several verdicts."""
    pair_A2 = np.stack([problem_A, answer_A], axis=1)
    pair_U2, index_A = np.unique(pair_A2, axis=0, return_inverse=True)
    count_U = np.bincount(index_A.ravel(), weights=count_A, minlength=len(pair_U2)).astype(np.int64)
    return count_U, pair_U2[:, 0]
