"""The samples of a run, scored by the models of both runs: one row per sample."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.likelihood.models import SIDES, RunModel, scores_under
from offleash.comparing.compare import Comparison
from offleash.comparing.per_problem import ProblemDetail
from offleash.data.run_folder import open_run
from offleash.data.scores import SCORES, scan_scores, scored_models
from offleash.data.shards import scan_shards
from offleash.data.tables import SAMPLES
from offleash.data.verdict import Verdict
from offleash.samplers.sampler import FINISHED, TRUNCATED, SamplingParams

KEY = ["problem", "index"]
# How far the log-probability recorded in the draw may be from the score of the text, in nats, plus so much per token:
# rounding, also between engines (vLLM draws, transformers scores). A text that is tokenised differently is off by more.
TOLERANCE, TOLERANCE_PER_TOKEN = 0.05, 0.005


@dataclass(frozen=True)
class ScoredSamples:
    """The scored samples of one run.

    Columns: tally_row (row in the tally), problem, index, correct (null: unread, failed or without a verdict), judged
    (whether it has a verdict), finish, text (a hash, where it is needed), tokens_before, tokens_after, before, after
    (sums of log-probability under the models' own distributions), law_before, law_after (under the laws of the runs:
    null where it is not known, minus infinity where the law excludes the sample), windowed, retokenised, unselected
    (among the first samples of its problem, which were scored whatever their verdicts). All sums are
    of the scored text; what the draw recorded serves as a check only: it has the probability of the one end-of-text
    token that was drawn, where a model may have several.
    """

    side: str
    frame: pl.DataFrame
    samples: int  # of the run, scored or not
    unsummed: int  # scored by both models, but without a log-probability under one of them
    checked: int  # of those scored, whose token counts the draw recorded; none where stop texts end samples

    @property
    def retokenised(self) -> int:
        return int(self.frame["retokenised"].sum())

    @property
    def windowed(self) -> int:
        return int(self.frame["windowed"].sum())


def scored_samples(detail: ProblemDetail, r: int, run_models: tuple[RunModel, RunModel]) -> ScoredSamples:
    """The samples of run r that both models have scored."""
    comparison, run_model, side = detail.comparison, run_models[r], SIDES[r]
    samples = scan_shards(run_model.folder / "samples", SAMPLES)
    count = int(samples.select(pl.len()).collect(engine="streaming").item())
    other = SIDES[1 - r]
    named = comparison.counted.own[r].join(_tally_rows(comparison), on="problem").select("tally_row", problem="own")
    drawn = samples.select(*KEY, "finish", "tokens", "entropy_raw", "logprob_sampled")
    # inner joins: only samples that the other model has scored; the run's own scores may be missing, and are counted
    scores = _scores(run_model, run_models[1 - r]).join(named.lazy(), on="problem").join(drawn, on=KEY)
    both = scores.join(_scores(run_model, run_model), on=KEY, how="left")
    judged = both.join(_verdict_rows(run_model, comparison, r), on=KEY, how="left")
    judged = judged.with_columns(pl.col("judged").fill_null(False))
    frame = _with_texts(judged.collect(engine="streaming"), samples, detail)
    with_sums = frame.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in SIDES)).sort("tally_row", "index")
    stopped = bool(run_model.decoding.stop)  # then the end is not scored, and nothing can be checked
    rows = with_sums.with_columns(
        retokenised=pl.lit(False) if stopped else _is_retokenised(side, other),
        windowed=(pl.col("windows_before") > 1) | (pl.col("windows_after") > 1),
        unselected=_unselected(with_sums, frame, samples.join(named.lazy(), on="problem", how="semi")),
        **{f"law_{name}": _sampled_logprob_sum(name, run_models[i].decoding) for i, name in enumerate(SIDES)},
    )
    return ScoredSamples(
        side=side,
        frame=rows.select(
            "tally_row", "problem", "index", "correct", "judged", "finish", "text", "before", "after", "law_before",
            "law_after", "windowed", "retokenised", "unselected", "tokens_before", "tokens_after",
        ),
        samples=count,
        unsummed=frame.height - with_sums.height,
        checked=0 if stopped else int(with_sums["tokens"].is_not_null().sum()),
    )  # fmt: skip


def _unselected(rows: pl.DataFrame, scored: pl.DataFrame, samples: pl.LazyFrame) -> pl.Series:
    """Whether samples come before the first unscored one of their problem, and so were not selected by a verdict.

    Only correct samples are ever selected. Where a problem has no gap, all of its samples may be correct and selected:
    so none counts beyond the last scored sample, of any problem, that is not correct.
    """
    unscored = samples.select(KEY).join(scored.lazy().select(KEY), on=KEY, how="anti")
    gaps = unscored.group_by("problem").agg(gap=pl.col("index").min()).collect(engine="streaming")
    if gaps.is_empty():
        return pl.repeat(True, rows.height, eager=True)
    last = scored.filter(~pl.col("correct").fill_null(False))["index"].max()
    before = pl.col("gap").is_null() | (pl.col("index") < pl.col("gap"))
    joined = rows.select(KEY).join(gaps, on="problem", how="left", maintain_order="left")
    return joined.select(before & (pl.col("index") <= (-1 if last is None else last))).to_series()


def _is_retokenised(side: str, other: str) -> pl.Expr:
    """Whether a text tokenises differently from how it was drawn: its token count or its log-probability differs.

    Of a finished sample the draw recorded the probability of one end-of-text token, and the score sums all of a model's
    end-of-text tokens, so the first may be lower; there the entropy is compared, which is the same whichever was drawn.
    """
    length, ended = pl.col(f"tokens_{side}"), (pl.col("finish") == FINISHED).fill_null(False)
    tolerance = TOLERANCE + TOLERANCE_PER_TOKEN * length
    gap = pl.col("logprob_sampled") - pl.col(f"sampled_{side}")
    entropy = (pl.col("entropy_raw") - pl.col(f"entropy_{side}")).abs() > tolerance
    differs = (gap > tolerance).fill_null(False) | pl.when(ended).then(entropy).otherwise(gap < -tolerance).fill_null(
        False
    )
    token_count_differs = (pl.col("tokens") != length) | (pl.col(f"tokens_{other}") != length)
    return token_count_differs.fill_null(False) | differs


def _with_texts(frame: pl.DataFrame, samples: pl.LazyFrame, detail: ProblemDetail) -> pl.DataFrame:
    """A hash of the text of each correct sample on an E or S problem: the certain bound counts distinct completions.

    Only there: texts are the bulk of a run, and nothing else needs them.
    """
    changed_rows = np.flatnonzero(np.isin(detail.class_k_P, ["E", "S"]))
    keys = frame.filter(pl.col("correct") & pl.col("tally_row").is_in(changed_rows)).select(KEY)
    problem_samples = samples.filter(pl.col("problem").is_in(keys["problem"].unique().to_list()))
    texts = problem_samples.select(*KEY, pl.col("text").fill_null("").hash(seed=0)).join(
        keys.lazy(), on=KEY, how="semi"
    )
    return frame.join(texts.collect(engine="streaming"), on=KEY, how="left")


def _scores(run_model: RunModel, scoring_model: RunModel) -> pl.LazyFrame:
    """The stored scores of a run by one model, with columns named by the side of that model."""
    name = scores_under(run_model.folder, scoring_model).name
    has_scores = name in scored_models(run_model.folder)
    scores = scan_scores(run_model.folder, name) if has_scores else pl.LazyFrame(schema=SCORES)
    side = scoring_model.side
    return scores.select(
        *KEY,
        pl.col("tokens").alias(f"tokens_{side}"),
        pl.col("logprob_raw").alias(side),
        pl.col("logprob_sampled").alias(f"sampled_{side}"),
        pl.col("entropy_raw").alias(f"entropy_{side}"),
        pl.col("windows").fill_null(1).alias(f"windows_{side}"),
    )


def _sampled_logprob_sum(side: str, decoding: SamplingParams) -> pl.Expr:
    """The log-probability of a sample as a whole completion under a law.

    A truncated sample is a completion only under a law with the same token limit, and one longer than the limit is
    impossible (minus infinity). Of a sample that is not known to have ended, or was scored in windows, the probability
    is not known (null).
    """
    tokens, sums = pl.col(f"tokens_{side}"), pl.col(f"sampled_{side}")
    ended, cut = pl.col("finish") == FINISHED, pl.col("finish") == TRUNCATED
    possible = (ended & (tokens <= decoding.max_tokens)) | (cut & (tokens == decoding.max_tokens))
    known = (ended | cut).fill_null(False) & (pl.col(f"windows_{side}") == 1)
    return pl.when(known & possible).then(sums).when(known).then(pl.lit(float("-inf")))


def _tally_rows(comparison: Comparison) -> pl.DataFrame:
    """The row of each problem in the tally."""
    return (
        comparison.counted.problems.select("problem")
        .with_row_index("tally_row")
        .with_columns(pl.col("tally_row").cast(pl.Int64))
    )


def _verdict_rows(run_model: RunModel, comparison: Comparison, r: int) -> pl.LazyFrame:
    """Samples that have a verdict of the comparison's verifier, and whether it is correct or wrong (null: neither)."""
    verdicts = open_run(run_model.folder, verifier=(comparison.before, comparison.after)[r].verifier).verdicts
    assert verdicts is not None, "a run folder has samples"
    verdict = pl.col("verdict").cast(pl.String)
    is_readable = verdict.is_in([Verdict.CORRECT.value, Verdict.WRONG.value])
    correct = pl.when(is_readable).then(verdict == Verdict.CORRECT.value)
    return verdicts.filter(verdict.is_not_null()).select(*KEY, correct=correct, judged=pl.lit(True))
