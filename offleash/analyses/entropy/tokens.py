"""Token entropy and length of a run's first samples per problem: recorded in the draw, or scored by its own model.

What the draw recorded is preferred: it is of every sample, and of the tokens that were drawn. Scores are of the first
samples only and of the tokens that the text is read as.
"""

from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

import numpy as np
import polars as pl

from offleash.comparing.tally import AlignedTally
from offleash.data.run import Run
from offleash.data.scores import SAMPLES
from offleash.data.tally import Float

KEY = ["problem", "index"]
DRAW, SCORE = "draw", "score"
PAPER_SAMPLES = 32  # samples per problem that the paper scores (Table 5)
SELECTED_SCORES_ONLY = (
    "its scores cover selected samples (such as the correct ones), not the first samples of each problem"
)
STOPPED = "it was drawn with --until, which selects samples by their outcome; draw without it"

FirstSamples = Callable[[pl.LazyFrame], pl.LazyFrame]  # filters a table of samples to the first k of each problem


@dataclass(frozen=True)
class TokenEntropies:
    """Means over the samples of each problem of one run; None where they are not known, and why."""

    entropy_P: Float | None  # nats per token: mean over the tokens of a sample, then over samples, as in Table 5
    length_P: Float | None  # tokens per sample
    source: str = ""  # of the entropies: draw or score
    scored_by: str = ""  # the name of the scores
    samples: int = 0  # with entropies
    reason: str = ""  # why there are no entropies, and how to get them
    length_reason: str = ""
    not_finite: int = 0  # samples whose entropy is not finite: left out of the means


def first_samples(run: Run, k: int) -> FirstSamples:
    """A filter that keeps the first k verified samples of each problem, by index, of any table of samples.

    Where every problem has verdicts on its samples 0 to k-1 without a gap, the filter is `index < k`, which Parquet
    answers without a join; otherwise the k-th verified sample has another index in every problem.
    """
    assert run.verdicts is not None, "counts have no samples"
    verified = run.verdicts.filter(pl.col("verdict").is_not_null()).select(*KEY)
    # Complete: the last index of each problem is the number of its rows minus one, so none is missing before it.
    ends = verified.group_by("problem").agg(rows=pl.len(), last=pl.col("index").max().cast(pl.Int64))
    are_complete, min_samples = (pl.col("last") + 1 == pl.col("rows")).all(), pl.col("rows").min()
    are_complete, min_samples = ends.select(whole=are_complete, least=min_samples).collect(engine="streaming").row(0)
    if are_complete and (min_samples or 0) >= k:
        return lambda frame: frame.filter(pl.col("index") < k)
    rank = pl.col("index").rank("ordinal").over("problem")
    keys = verified.filter(rank <= k).collect().lazy()
    return lambda frame: frame.join(keys, on=KEY, how="semi")


def tokens_of(run: Run, aligned: AlignedTally, r: int, first: FirstSamples | None, path: str = "") -> TokenEntropies:
    """The token entropies and lengths of run r, or why there are none.

    Args:
        run: the run.
        aligned: the tally of all runs, whose rows are the problems.
        r: the index of the run in the tally.
        first: the filter of `first_samples`; None where the run keeps no samples.
        path: the folder or file that the user named the run by, for messages.
    """
    if run.budget.until:
        return TokenEntropies(None, None, reason=STOPPED, length_reason=STOPPED)
    hint = how_to_score(run, path)
    if run.samples is None or first is None:
        return TokenEntropies(None, None, reason=f"it has no samples; {hint}", length_reason="it has no samples")
    drawn = _means(first(run.samples), aligned, r)
    entropy_P, length_P = drawn.entropy_P, drawn.length_P
    length_reason = "" if length_P is not None else "its samples have no token counts"
    if entropy_P is not None:
        return TokenEntropies(entropy_P, length_P, DRAW, "", drawn.samples, "", length_reason, drawn.not_finite)
    # Without a record in the draw: scores by the model that drew the run, and by no other.
    if run.own is None or run.own not in run.scores:
        not_finite_text = f"none of its {drawn.not_finite:,} token entropies is finite" if drawn.not_finite else ""
        why = f"{not_finite_text or 'no token entropies'}: {hint}"
        return TokenEntropies(None, length_P, reason=why, length_reason=length_reason, not_finite=drawn.not_finite)
    scores = scored_first(run)
    if scores is None:
        return TokenEntropies(None, length_P, reason=f"{SELECTED_SCORES_ONLY}; {hint}", length_reason=length_reason)
    scored = _means(first(scores), aligned, r)
    if scored.entropy_P is None:
        count = scored.not_finite
        why = f"none of its {count:,} scored entropies is finite" if count else f"its scores have no entropies; {hint}"
        return TokenEntropies(None, length_P, reason=why, length_reason=length_reason, not_finite=count)
    length_P, length_reason = (scored.length_P, "") if length_P is None else (length_P, length_reason)
    return TokenEntropies(
        scored.entropy_P, length_P, SCORE, run.own, scored.samples, "", length_reason, scored.not_finite
    )


def how_to_score(run: Run, path: str = "") -> str:
    """The command that computes a run's token entropies, with its path and its model's name where they are known."""
    sampler, _, name = run.facts.get("model", "").partition(":")
    known = sampler in ("hf", "vllm") and name and name.isprintable()
    is_log_run = "format" in run.facts and "tool" not in run.facts
    first = f"offleash import {quote(path) if path else 'LOGS'} -o RUN --texts, then " if is_log_run else ""
    run_argument = quote(path) if path and not is_log_run else "RUN"
    model = quote(f"hf:{name}") if known else "hf:MODEL"
    return f"{first}offleash score {run_argument} --model {model} --first {PAPER_SAMPLES} computes them"


@dataclass(frozen=True)
class _ProblemMeans:
    """Means over the samples of each problem, as one table of samples has them; None where no problem has one."""

    entropy_P: Float | None
    length_P: Float | None
    samples: int
    not_finite: int = 0


def _means(frame: pl.LazyFrame, aligned: AlignedTally, r: int) -> _ProblemMeans:
    """Entropy per token and length of each problem, from a table with `tokens` and perhaps `entropy_raw`.

    The mean over tokens comes first, then the mean over samples: a long sample weighs as much as a short one."""
    names = frame.collect_schema().names()
    if "tokens" not in names:
        return _ProblemMeans(None, None, 0)
    entropy = pl.col("entropy_raw") if "entropy_raw" in names else pl.lit(None, pl.Float64)
    # A sample without tokens has no entropy per token; one that is not finite (a damaged log) is counted, not averaged.
    per_token = frame.with_columns(each=pl.when(pl.col("tokens") > 0).then(entropy / pl.col("tokens")))
    finite = per_token.with_columns(
        each=pl.when(pl.col("each").is_finite()).then("each"), bad=pl.col("each").is_finite().not_().fill_null(False)
    )
    by_problem = (
        finite.group_by("problem")
        .agg(
            pl.col("each").mean().alias("entropy"),
            pl.col("each").count().alias("samples"),
            pl.col("tokens").mean().alias("length"),
            pl.col("bad").sum(),
        )
        .collect(engine="streaming")
    )
    # In the order of the tally; `own` is the id that this run has for a problem.
    rows = aligned.problems.select("problem")
    named = by_problem.rename({"problem": "own"}).join(aligned.own[r], on="own")
    joined = rows.join(named, on="problem", how="left", maintain_order="left")
    entropy_P, length_P = (
        joined[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in ("entropy", "length")
    )
    samples, not_finite = (int(joined[name].fill_null(0).sum()) for name in ("samples", "bad"))
    return _ProblemMeans(_known(entropy_P), _known(length_P), samples, not_finite)


def _known(value_P: Float) -> Float | None:
    return None if np.isnan(value_P).all() else value_P.astype(np.float64)


def scored_first(run: Run) -> pl.LazyFrame | None:
    """Own scores of the first samples of each problem; None where samples were selected for scoring by their verdict.

    Correct samples are likelier than others, so scores of correct samples alone would look too certain. The positions
    count the samples that were scored whatever their verdicts; what was scored beyond that count is left out. Scores
    are of the first samples where no sample up to the last scored one is missing.
    """
    assert run.own is not None, "checked by the caller"
    scores = run.scores[run.own]
    if run.own in run.positions:
        counts = run.positions[run.own].filter(pl.col("kind") == SAMPLES)
        count = counts.group_by("problem").agg(count=pl.col("tokens").sum()).collect(engine="streaming")
        rank = pl.col("index").rank("ordinal").over("problem")
        # Positions count samples scored whatever their verdict: by index these are the first so many.
        scores = (
            scores.with_columns(rank=rank).join(count.lazy(), on="problem").filter(pl.col("rank") <= pl.col("count"))
        )
    ends = scores.group_by("problem").agg(last=pl.col("index").max(), scored=pl.len())
    # Samples that the run has up to the last scored one, against those that are scored.
    before = ends.join(scores.select(KEY) if run.samples is None else run.samples.select(KEY), on="problem")
    seen = (
        before.filter(pl.col("index") <= pl.col("last")).group_by("problem").agg(pl.col("scored").first(), n=pl.len())
    )
    all_scored = seen.select(pl.len() > 0, (pl.col("scored") == pl.col("n")).all()).collect(engine="streaming").row(0)
    return scores if all(all_scored) else None
