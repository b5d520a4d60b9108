"""What scores come to: log-probability and entropy a token, and perplexity, of all traces and by verdict."""

from dataclasses import dataclass

import polars as pl

from offleash.data.scores import Sums, a_token

ALL, UNVERIFIED = "all", "unverified"
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Summary:
    """One group of traces. Means are over traces, each the mean over its tokens; None where no trace has tokens."""

    samples: int
    scored: int  # with sums
    empty: int  # of them without a token: they have no mean and no perplexity
    tokens: int  # of those scored
    logprob: float | None  # a token
    logprob_spread: float | None  # standard deviation over traces
    logprob_pooled: float | None  # all tokens of all traces as one
    entropy: float | None  # a token; mean over the traces of a problem, then over problems, as the paper has it
    entropy_spread: float | None  # standard deviation over traces
    entropy_pooled: float | None
    perplexity: float | None  # median over traces
    perplexity_quartiles: tuple[float, float] | None
    perplexity_pooled: float | None
    windowed: int  # traces longer than the model's context, read in parts
    left_out: int  # traces with a token that the decoding leaves out: its log-probability is minus infinity


def summaries(scores: pl.LazyFrame, verdicts: pl.LazyFrame | None = None) -> dict[str, Summary]:
    """Summaries by group: all traces first, then by verdict where there are verdicts."""
    frame = scores if verdicts is None else _judged(scores, verdicts)
    traces = a_token(frame).collect()
    groups = {ALL: summary(traces)}
    if verdicts is not None:
        for name in ("correct", "wrong", "unread", "failed", UNVERIFIED):
            group = traces.filter(pl.col("verdict") == name)
            if group.height:
                groups[name] = summary(group)
    return groups


def summary(traces: pl.DataFrame) -> Summary:
    """The summary of traces that have their means a token (a_token)."""
    scored = traces.filter(pl.col("logprob_raw").is_not_null())
    some = scored.filter(pl.col("tokens") > 0)
    tokens = int(scored["tokens"].cast(pl.Int64).sum())
    pooled = (_float(some["logprob_raw"].sum()), _float(some["entropy_raw"].sum())) if tokens else (None, None)
    logprob_pooled, entropy_pooled = (None if one is None else one / tokens for one in pooled)
    low, median, high = (_float(some["perplexity"].quantile(share, "linear")) for share in QUARTILES)
    by_problem = some.group_by("problem").agg(pl.col("mean_entropy").mean())["mean_entropy"]
    return Summary(
        samples=traces.height,
        scored=scored.height,
        empty=scored.height - some.height,
        tokens=tokens,
        logprob=_float(some["mean_logprob"].mean()),
        logprob_spread=_float(some["mean_logprob"].std()),
        logprob_pooled=logprob_pooled,
        entropy=_float(by_problem.mean()),
        entropy_spread=_float(some["mean_entropy"].std()),
        entropy_pooled=entropy_pooled,
        perplexity=median,
        perplexity_quartiles=None if low is None or high is None else (low, high),
        perplexity_pooled=Sums(tokens, pooled[0]).perplexity,
        windowed=int((scored["windows"] > 1).sum()),
        left_out=int((scored["logprob_sampled"] == float("-inf")).sum()),
    )


def _judged(scores: pl.LazyFrame, verdicts: pl.LazyFrame) -> pl.LazyFrame:
    said = verdicts.select("problem", "index", pl.col("verdict").cast(pl.String))
    joined = scores.join(said, on=["problem", "index"], how="left")
    return joined.with_columns(pl.col("verdict").fill_null(UNVERIFIED))


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
