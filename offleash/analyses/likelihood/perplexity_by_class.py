"""Perplexity by class: samples and traces under both models, split by P, E, S, O (Table 2 of arXiv:2507.14843).

First the table: means per author and class, and correct minus wrong traces of one author (style). Then the quartiles of
each run's samples, for the figure.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.likelihood.samples import ScoredSamples
from offleash.analyses.likelihood.traces import ExternalTrace
from offleash.comparing.per_problem import ProblemDetail
from offleash.data.run import Run
from offleash.data.scores import SAMPLES, ScoredSample, with_token_means
from offleash.data.tally import Float, Integer
from offleash.data.verdict import Verdict
from offleash.stats.intervals import Estimate, Interval, ratios, strata
from offleash.stats.likelihood import by_problem, equal_weights, matched_weights
from offleash.stats.support_classes import AFTER, BEFORE

CELLS = ("P", "E", "S", "O")
ALL_BENCHMARKS = ""  # all benchmarks
TRACES = {
    "author": pl.String(),
    "own": pl.Boolean(),  # self-generated: drawn by one of the two models
    "tally_row": pl.Int64(),
    "correct": pl.Boolean(),  # null: not known; of own samples: unread, failed or without a verdict
    "tokens": pl.Int64(),  # by the tokeniser of the model before, also in `after`: otherwise ratios would mix units
    "before": pl.Float64(),  # log-probability per token
    "after": pl.Float64(),
}


@dataclass(frozen=True)
class TraceGroup:
    """The traces of one author on the problems of one class; every problem weighs the same."""

    author: str
    own: bool
    benchmark: str
    cell: str
    problems: int
    traces: int
    unjudged: int  # of the traces: not known whether they are correct
    tokens: float  # of a trace, mean
    perplexity: dict[str, Estimate]  # before, after: exp of minus the mean log-probability per token
    mean_perplexity: dict[str, float]  # before, after: the mean of the traces' own perplexities
    log_ratio: Estimate  # per token: log after - log before; above 0: the model after finds them likelier
    matched: Estimate | None  # the same at equal lengths over the author's classes; None: lengths cannot be matched


@dataclass(frozen=True)
class Style:
    """Correct minus wrong traces of the same author on the same problem: the author's style cancels out."""

    author: str
    own: bool
    cell: str  # or all of them
    problems: int  # with both
    before: Estimate  # log-probability per token, correct minus wrong
    after: Estimate
    change: Estimate  # after minus before; above 0: the model after prefers correct traces by more


def external_traces(traces: tuple[ExternalTrace, ...], sums: dict[str, list[ScoredSample]]) -> pl.DataFrame:
    """External traces with both models' log-probabilities (TRACES); those without are left out."""
    rows = []
    for trace, before, after in zip(traces, sums["before"], sums["after"], strict=True):
        if before.logprob_raw is None or after.logprob_raw is None or not before.tokens:
            continue
        per_token = (before.logprob_raw / before.tokens, after.logprob_raw / before.tokens)
        rows.append((trace.author, False, trace.tally_row, trace.correct, before.tokens, *per_token))
    return pl.DataFrame(rows, schema=TRACES, orient="row")


def own_traces(samples: ScoredSamples, name: str, first: int | None = None) -> pl.DataFrame:
    """A run's scored samples as traces (TRACES); with `first`, only first samples, which no verdict selected.

    Style compares correct with wrong traces, so it needs the latter: selected samples are correct.
    """
    kept = samples.frame.filter(pl.col("tokens_before") > 0)
    if first is not None:
        kept = kept.filter((pl.col("index") < first) & pl.col("unselected"))
    tokens = pl.col("tokens_before")
    return kept.select(
        author=pl.lit(name),
        own=pl.lit(True),
        tally_row=pl.col("tally_row"),
        correct=pl.col("correct"),
        tokens=tokens.cast(pl.Int64),
        before=pl.col("before") / tokens,
        after=pl.col("after") / tokens,
    )


def groups(detail: ProblemDetail, traces: pl.DataFrame) -> list[TraceGroup]:
    """Every author's traces by class, over all benchmarks and by benchmark.

    Of a model's own samples only correct ones; of external traces all that are not known to be wrong.
    """
    usable_traces = traces.filter(pl.col("correct").fill_null(~pl.col("own")))
    all_author_groups = [_groups(detail, author_traces, ALL_BENCHMARKS) for author_traces in _authors(usable_traces)]
    names = sorted(set(detail.tally.benchmark_P.tolist()))
    if len(names) > 1:
        rows_of = {name: np.flatnonzero(detail.tally.benchmark_P == name) for name in names}
        for author_traces in _authors(usable_traces):
            all_author_groups += [
                _groups(detail, author_traces.filter(pl.col("tally_row").is_in(rows_of[name])), name) for name in names
            ]
    return [group for author_groups in all_author_groups for group in author_groups]


def styles(detail: ProblemDetail, traces: pl.DataFrame) -> list[Style]:
    """Correct minus wrong for every author that has both on some problem, over all problems and by class."""
    return [
        style
        for author_traces in _authors(traces.filter(pl.col("correct").is_not_null()))
        for style in _styles(detail, author_traces)
    ]


def _authors(traces: pl.DataFrame) -> list[pl.DataFrame]:
    return [part for _, part in sorted(traces.group_by("own", "author"), key=lambda group: group[0]) if part.height]


def _groups(detail: ProblemDetail, author_traces: pl.DataFrame, benchmark: str) -> list[TraceGroup]:
    """One author's traces by class.

    Each statistic is a ratio of two columns per problem: the weighted sum of a value over the problem's traces, and the
    sum of weights. All columns, four per class, are resampled together, so intervals of classes and of differences come
    from the same replicates of problems.
    """
    if not author_traces.height:
        return []
    tally_row_T, problems = author_traces["tally_row"].to_numpy(), len(detail.tally)
    class_T = detail.class_k_P[tally_row_T]
    cells = [cell for cell in CELLS if (class_T == cell).any()]
    class_code_T = np.searchsorted(np.array(sorted(cells)), class_T) if cells else np.zeros(len(class_T), np.int64)
    known_T = np.isin(class_T, cells)
    # 1 / (traces of the problem), so that every problem weighs the same; problems without a class weigh nothing.
    weight_T = np.where(known_T, equal_weights(tally_row_T, class_code_T), 0.0)
    length_T, before_T, after_T = (
        author_traces[name].to_numpy().astype(np.float64) for name in ("tokens", "before", "after")
    )
    # Long traces have a lower perplexity per token (the beginning is the least predictable), and classes differ in
    # length: a second set of weights gives all classes the same distribution of lengths.
    matched_T = np.zeros(len(weight_T))
    matched_T[known_T] = matched_weights(length_T[known_T], class_code_T[known_T], weight_T[known_T])
    numerators, denominators = [], []
    for cell in cells:
        for value_T, weights_T in ((-before_T, weight_T), (-after_T, weight_T), (after_T - before_T, weight_T),
                                (after_T - before_T, matched_T)):  # fmt: skip
            chosen_T = np.where(class_T == cell, weights_T, 0.0)
            numerators.append(by_problem(value_T, chosen_T, tally_row_T, problems))
            denominators.append(by_problem(np.ones_like(value_T), chosen_T, tally_row_T, problems))
    if not cells:
        return []
    estimates = _estimates(detail, np.stack(numerators, axis=1), np.stack(denominators, axis=1))
    groups = []
    for number, cell in enumerate(cells):
        before, after, ratio, matched = estimates[4 * number : 4 * number + 4]
        in_class_T = class_T == cell
        with np.errstate(over="ignore"):  # a trace that a model finds impossible has an infinite perplexity
            perplexity = {"before": np.exp(-before_T[in_class_T]), "after": np.exp(-after_T[in_class_T])}
        groups.append(
            TraceGroup(
                author=str(author_traces["author"][0]),
                own=bool(author_traces["own"][0]),
                benchmark=benchmark,
                cell=cell,
                problems=len(np.unique(tally_row_T[in_class_T])),
                traces=int(in_class_T.sum()),
                unjudged=int(author_traces["correct"].is_null().to_numpy()[in_class_T].sum()),
                tokens=float(np.average(length_T[in_class_T], weights=weight_T[in_class_T])),
                perplexity={"before": _exp_estimate(before), "after": _exp_estimate(after)},
                mean_perplexity={
                    side: float(np.average(perplexity_T, weights=weight_T[in_class_T]))
                    for side, perplexity_T in perplexity.items()
                },
                log_ratio=ratio,
                matched=matched if np.isfinite(matched.value) else None,
            )
        )
    return groups


def _styles(detail: ProblemDetail, traces: pl.DataFrame) -> list[Style]:
    """One author's difference on the D problems with correct and wrong traces; three columns per kind, as `_groups`."""
    mean = traces.group_by("tally_row", "correct").agg(pl.col("before", "after").mean())
    right, wrong = mean.filter("correct"), mean.filter(~pl.col("correct"))
    both = right.join(wrong, on="tally_row", suffix="_wrong").sort("tally_row")
    if not both.height:
        return []
    tally_row_D, problems = both["tally_row"].to_numpy(), len(detail.tally)
    gap = {side: (both[side] - both[f"{side}_wrong"]).to_numpy() for side in ("before", "after")}
    # three columns per kind: the gap under each model, and its change; all kinds are resampled together
    value_DQ = np.stack([gap["before"], gap["after"], gap["after"] - gap["before"]], axis=1)
    cell_D = detail.class_k_P[tally_row_D]
    kinds = ["all", *(cell for cell in CELLS if (cell_D == cell).any())]
    numerator_PQ, denominator_PQ = np.zeros((problems, 3 * len(kinds))), np.zeros((problems, 3 * len(kinds)))
    for number, kind in enumerate(kinds):
        chosen_D = np.ones(len(cell_D), bool) if kind == "all" else cell_D == kind
        columns = slice(3 * number, 3 * number + 3)
        numerator_PQ[tally_row_D[chosen_D], columns] = value_DQ[chosen_D]
        denominator_PQ[tally_row_D[chosen_D], columns] = 1.0
    estimates, author, own = (
        _estimates(detail, numerator_PQ, denominator_PQ),
        str(traces["author"][0]),
        bool(traces["own"][0]),
    )
    return [
        Style(author, own, kind, int(denominator_PQ[:, 3 * number].sum()), *estimates[3 * number : 3 * number + 3])
        for number, kind in enumerate(kinds)
    ]


def _estimates(detail: ProblemDetail, numerator_PQ: Float, denominator_PQ: Float) -> list[Estimate]:
    question, stratum_P = detail.comparison.question, _strata(detail)
    value_Q, ends = ratios(numerator_PQ, denominator_PQ, stratum_P, question.replicates, question.seed)
    return [Estimate(float(value), interval) for value, interval in zip(value_Q, ends, strict=True)]


def _strata(detail: ProblemDetail) -> Integer:
    return strata(detail.tally.benchmark_P)


def _exp_estimate(estimate: Estimate) -> Estimate:
    """The perplexity for a mean of minus log-probabilities; exp(700) is the largest power that a float holds."""
    low, value, high = (
        float(np.exp(min(end, 700.0))) for end in (estimate.interval.low, estimate.value, estimate.interval.high)
    )
    return Estimate(value, Interval(low, high))


# Quartiles of perplexity: how likely models find the samples of both runs, by the class of their problems.


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


def perplexities(detail: ProblemDetail) -> list[Spread]:
    """The spread of perplexity by run, scoring model, class and kind of trace; empty where nothing was scored.

    A run has no spread of ALL_SAMPLES under a model that scored selected samples alone; which ones, says
    `models_with_selected_scores`.
    """
    spreads = []
    for side, r in SIDES.items():
        run = (detail.comparison.before, detail.comparison.after)[r]
        for model in sorted(run.scores):
            traces = _traces(detail, r, run.scores[model])
            kinds = {CORRECT: traces.filter("correct"), ALL_SAMPLES: _first_samples(detail, r, model, traces)}
            spreads += _spreads(side, model, kinds)
    return spreads


def models_with_selected_scores(spreads: list[Spread]) -> list[tuple[str, str]]:
    """Run (before or after) and model of scores that have no first samples: all were selected as correct."""
    unselected = {(spread.run, spread.model) for spread in spreads if spread.traces == ALL_SAMPLES}
    return list(
        dict.fromkeys((spread.run, spread.model) for spread in spreads if (spread.run, spread.model) not in unselected)
    )


def _known(detail: ProblemDetail, r: int) -> pl.DataFrame:
    """The problems of a comparison by this run's own ids, with their classes."""
    classes = pl.DataFrame({"name": detail.problems["problem"], "cls": detail.class_k_P.tolist()})
    own_ids = detail.comparison.counted.own[r].rename({"problem": "name", "own": "problem"})
    return own_ids.join(classes, on="name").select("problem", "cls")


def _traces(detail: ProblemDetail, r: int, scores: pl.LazyFrame) -> pl.DataFrame:
    """Every scored sample: its perplexity (null: it has no score), the class of its problem, whether it is correct."""
    run = (detail.comparison.before, detail.comparison.after)[r]
    scored = with_token_means(scores).select(
        "problem", pl.col("index").cast(pl.Int64), pl.col("perplexity").fill_nan(None)
    )
    traces = scored.join(_known(detail, r).lazy(), on="problem")
    if run.verdicts is None:
        return traces.with_columns(correct=pl.lit(False)).collect(engine="streaming")
    right = (pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value).fill_null(False).alias("correct")
    verdicts = run.verdicts.select("problem", pl.col("index").cast(pl.Int64), right)
    joined = traces.join(verdicts, on=KEY, how="left")
    return joined.with_columns(pl.col("correct").fill_null(False)).collect(engine="streaming")


def _spreads(side: str, model: str, kinds: dict[str, pl.DataFrame]) -> list[Spread]:
    """Quartiles of perplexity by kind of sample and class."""
    spreads = []
    for kind, kind_traces in kinds.items():
        for (cell,), group in kind_traces.drop_nulls("perplexity").group_by("cls", maintain_order=True):
            low, median, high = np.quantile(group["perplexity"].to_numpy(), QUARTILES)
            spreads.append(Spread(side, model, str(cell), kind, group.height, float(low), float(median), float(high)))
    return sorted(spreads, key=lambda spread: (spread.traces, spread.problems))


def _first_samples(detail: ProblemDetail, r: int, model: str, traces: pl.DataFrame) -> pl.DataFrame:
    """Samples that no verdict selected: the first ones of each problem, as far as they are scored without a gap.

    The positions count how many were scored whatever their verdicts. Without positions (older scores): only correct
    samples are ever selected, so first samples reach to the last scored sample, of any problem, that is not correct.
    """
    run = (detail.comparison.before, detail.comparison.after)[r]
    gaps = _gaps(run, _known(detail, r), traces)
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
    if run.samples is None:  # then an index that is skipped is the only sign of a sample without a score
        order = pl.col("index").rank("ordinal").over("problem") - 1
        other_traces = traces.filter(pl.col("index") != order).lazy()
    else:
        samples = run.samples.select("problem", pl.col("index").cast(pl.Int64))
        known_samples = samples.join(known.lazy(), on="problem", how="semi")
        other_traces = known_samples.join(traces.lazy(), on=KEY, how="anti")
    return other_traces.group_by("problem").agg(gap=pl.col("index").min()).collect(engine="streaming")
