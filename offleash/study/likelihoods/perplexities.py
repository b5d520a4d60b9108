"""Perplexities: how likely models find the samples of both runs, by the class of their problems."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.study.detail import Detail
from offleash.support.cells import AFTER, BEFORE
from offleash.tables.scores import a_token
from offleash.tables.verdict import Verdict

CORRECT, ALL = "correct", "all"
SIDES = {"before": BEFORE, "after": AFTER}
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Spread:
    """Perplexity of the traces that one run wrote on the problems of one class, under one model."""

    run: str  # before or after: who wrote the traces
    model: str  # who scored them
    problems: str  # P, E, S, O or ?
    traces: str  # correct or all
    samples: int
    low: float  # quartile
    median: float
    high: float  # quartile


def perplexities(told: Detail) -> list[Spread]:
    """The spread of perplexity by run, scoring model, class and kind of trace; empty where nothing was scored."""
    out = []
    for side, r in SIDES.items():
        run = (told.comparison.before, told.comparison.after)[r]
        for model in sorted(run.scores):
            out += _spreads(side, model, _traces(told, r, run.scores[model]))
    return out


def _traces(told: Detail, r: int, scores: pl.LazyFrame) -> pl.DataFrame:
    """The perplexity of every scored trace, with the class of its problem and whether it is correct."""
    run, own = (told.comparison.before, told.comparison.after)[r], told.comparison.counted.own[r]
    classes = pl.DataFrame({"name": told.problems["problem"], "cls": told.class_P.tolist()})
    known = own.rename({"problem": "name", "own": "problem"}).join(classes, on="name").select("problem", "cls")
    traces = a_token(scores).select("problem", "index", "perplexity").join(known.lazy(), on="problem")
    traces = traces.filter(pl.col("perplexity").is_not_null() & pl.col("perplexity").is_not_nan())
    if run.verdicts is None:
        return traces.with_columns(correct=pl.lit(False)).collect(engine="streaming")
    right = (pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value).fill_null(False).alias("correct")
    said = run.verdicts.select("problem", "index", right)
    joined = traces.join(said, on=["problem", "index"], how="left")
    return joined.with_columns(pl.col("correct").fill_null(False)).collect(engine="streaming")


def _spreads(side: str, model: str, traces: pl.DataFrame) -> list[Spread]:
    out = []
    for kind, part in ((CORRECT, traces.filter("correct")), (ALL, _unchosen(traces))):
        for (name,), group in part.group_by("cls", maintain_order=True):
            low, median, high = np.quantile(group["perplexity"].to_numpy(), QUARTILES)
            out.append(Spread(side, model, str(name), kind, group.height, float(low), float(median), float(high)))
    return sorted(out, key=lambda one: (one.traces, one.problems))


def _unchosen(traces: pl.DataFrame) -> pl.DataFrame:
    """Traces that no verdict has chosen: where correct samples beyond the first were scored, the first alone."""
    if traces.is_empty():
        return traces
    order = pl.col("index").rank("ordinal").over("problem") - 1
    heads = traces.with_columns(whole=pl.col("index") == order).group_by("problem").agg(pl.col("whole").sum(), pl.len())
    first = int(heads["whole"].to_numpy().min())
    gaps = (heads["whole"] < heads["len"]).any()
    return traces.filter(pl.col("index") < first) if gaps and first else traces
