"""Perplexities: how likely models find the samples of both runs, by the class of their problems."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.comparing.per_problem import Detail
from offleash.data.positions import SAMPLES
from offleash.data.run import Run
from offleash.data.scores import a_token
from offleash.data.verdict import Verdict
from offleash.stats.classes import AFTER, BEFORE

CORRECT, ALL_SAMPLES = "correct", "all"
SIDES = {"before": BEFORE, "after": AFTER}
KEY = ["problem", "index"]
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Spread:
    """Perplexity of the traces that one run wrote on the problems of one class, under one model."""

    run: str  # before or after: who wrote the traces
    model: str  # who scored them
    problems: str  # P, E, S, O or ?
    traces: str  # correct; or all: the first samples of each problem, whatever their verdicts
    samples: int
    low: float  # quartile
    median: float
    high: float  # quartile


def perplexities(told: Detail) -> list[Spread]:
    """The spread of perplexity by run, scoring model, class and kind of trace; empty where nothing was scored.

    A run has no spread of ALL under a model that has scored chosen samples alone (`only_chosen` says which).
    """
    out = []
    for side, r in SIDES.items():
        run = (told.comparison.before, told.comparison.after)[r]
        for model in sorted(run.scores):
            traces = _traces(told, r, run.scores[model])
            kinds = {CORRECT: traces.filter("correct"), ALL_SAMPLES: _unchosen(told, r, model, traces)}
            out += _spreads(side, model, kinds)
    return out


def only_chosen(found: list[Spread]) -> list[tuple[str, str]]:
    """The run (before or after) and the model of scores that hold no first samples: all were chosen as correct."""
    told = {(one.run, one.model) for one in found if one.traces == ALL_SAMPLES}
    return list(dict.fromkeys((one.run, one.model) for one in found if (one.run, one.model) not in told))


def _known(told: Detail, r: int) -> pl.DataFrame:
    """The problems of a comparison by a run's own ids, with their classes."""
    classes = pl.DataFrame({"name": told.problems["problem"], "cls": told.class_P.tolist()})
    own = told.comparison.counted.own[r].rename({"problem": "name", "own": "problem"})
    return own.join(classes, on="name").select("problem", "cls")


def _traces(told: Detail, r: int, scores: pl.LazyFrame) -> pl.DataFrame:
    """Every scored trace: its perplexity (null: it has no sums), the class of its problem, whether it is correct."""
    run = (told.comparison.before, told.comparison.after)[r]
    scored = a_token(scores).select("problem", pl.col("index").cast(pl.Int64), pl.col("perplexity").fill_nan(None))
    traces = scored.join(_known(told, r).lazy(), on="problem")
    if run.verdicts is None:
        return traces.with_columns(correct=pl.lit(False)).collect(engine="streaming")
    right = (pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value).fill_null(False).alias("correct")
    said = run.verdicts.select("problem", pl.col("index").cast(pl.Int64), right)
    joined = traces.join(said, on=KEY, how="left")
    return joined.with_columns(pl.col("correct").fill_null(False)).collect(engine="streaming")


def _spreads(side: str, model: str, kinds: dict[str, pl.DataFrame]) -> list[Spread]:
    out = []
    for kind, part in kinds.items():
        for (name,), group in part.drop_nulls("perplexity").group_by("cls", maintain_order=True):
            low, median, high = np.quantile(group["perplexity"].to_numpy(), QUARTILES)
            out.append(Spread(side, model, str(name), kind, group.height, float(low), float(median), float(high)))
    return sorted(out, key=lambda one: (one.traces, one.problems))


def _unchosen(told: Detail, r: int, model: str, traces: pl.DataFrame) -> pl.DataFrame:
    """Traces that no verdict has chosen: the first samples of each problem, as far as they are scored without a gap.

    How many were scored whatever their verdicts, the positions tell. Where there are none: only correct samples are
    ever chosen, so the first ones reach to the last scored sample of any problem that is not correct, and no further.
    """
    run = (told.comparison.before, told.comparison.after)[r]
    gaps = _gaps(run, _known(told, r), traces)
    heads = traces.join(gaps, on="problem", how="left").filter(
        pl.col("gap").is_null() | (pl.col("index") < pl.col("gap"))
    )
    if model in run.positions:
        counts = run.positions[model].filter(pl.col("kind") == SAMPLES)
        count = counts.group_by("problem").agg(count=pl.col("tokens").sum()).collect(engine="streaming")
        rank = pl.col("index").rank("ordinal").over("problem")
        return heads.join(count, on="problem").filter(rank <= pl.col("count"))
    if gaps.is_empty():
        return heads
    reached = traces.filter(~pl.col("correct")).select(last=pl.col("index").max())  # null: all are correct
    return heads.join(reached, how="cross").filter(pl.col("index") <= pl.col("last"))


def _gaps(run: Run, known: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """The index of the first sample that has no score, of each problem that has one: problem, gap."""
    if run.samples is None:  # then indices alone tell
        order = pl.col("index").rank("ordinal").over("problem") - 1
        without = traces.filter(pl.col("index") != order).lazy()
    else:
        samples = run.samples.select("problem", pl.col("index").cast(pl.Int64))
        here = samples.join(known.lazy(), on="problem", how="semi")
        without = here.join(traces.lazy(), on=KEY, how="anti")
    return without.group_by("problem").agg(gap=pl.col("index").min()).collect(engine="streaming")
