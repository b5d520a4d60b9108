"""The length of the leash: how far apart two models are as laws of whole samples (Kullback-Leibler divergence)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.likelihood.classes import CELLS, Estimate
from offleash.analyses.likelihood.cross_support import stopped_early
from offleash.analyses.likelihood.law import SIDES, UNLIMITED, Law
from offleash.analyses.likelihood.samples import Scored
from offleash.comparing.per_problem import Detail
from offleash.stats.few import ratios
from offleash.stats.intervals import strata
from offleash.stats.likelihood import problem_means

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
class Leash:
    """Both divergences; `reason` says why there are none."""

    divergences: tuple[Divergence, ...]
    retokenised: int  # samples whose text is read as other tokens: counted by their text, under both models
    reason: str = ""


def leash(told: Detail, scored: tuple[Scored, Scored], laws: tuple[Law, Law], first: int) -> Leash:
    """The sequence KL of both directions, over the first samples of each problem."""
    for law in laws:
        if not law.known:
            return Leash((), 0, f"{law.run} was imported and does not say how it was drawn")
        if not law.decoding.plain:
            how = f"{law.run} was drawn at temperature {law.decoding.temperature:g}, top-p {law.decoding.top_p:g}"
            return Leash((), 0, f"{how}: a divergence of the models needs samples at temperature 1 and top-p 1, uncut")
        if law.decoding.stop:
            return Leash((), 0, f"{law.run} was drawn with stop texts, so nothing says what its samples end with")
    reason = _other_lengths(laws) or stopped_early(told, laws, first)
    if reason:
        return Leash((), 0, reason)
    found = [_divergence(told, one, first) for one in scored]
    heads = [_head(one, first) for one in scored]
    retokenised = sum(int(head["retokenised"].sum()) for head in heads)
    return Leash(tuple(one for one in found if one is not None), retokenised)


def _other_lengths(laws: tuple[Law, Law]) -> str:
    """Why whole samples of the two runs are not the same thing; empty where they are."""
    lengths = [law.decoding.max_tokens for law in laws]
    if lengths[0] == lengths[1]:
        return ""
    told = [f"{law.run} {'at a length it does not say' if length == UNLIMITED else f'at {length:,} tokens'}"
            for law, length in zip(laws, lengths, strict=True)]  # fmt: skip
    return f"samples were cut at different lengths ({told[0]}, {told[1]}), so whole samples of one are not the other's"


def _head(found: Scored, first: int) -> pl.DataFrame:
    """The first samples of each problem that were read whole."""
    return found.frame.filter((pl.col("index") < first) & pl.col("unchosen") & ~pl.col("windowed"))


def _divergence(told: Detail, found: Scored, first: int) -> Divergence | None:
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
