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
# How far the sum that was noted at the draw may be from that of the text: rounding, of another engine too; a text that
# is read as other tokens differs by far more.
LEAST_APART, APART_A_TOKEN = 0.05, 0.005


@dataclass(frozen=True)
class ScoredSamples:
    """The scored samples of one run.

    Columns: place (row of the tally), problem, index, correct (null: unread, failed or without a verdict), judged
    (whether it has a verdict), finish, text (a hash, where it is needed), tokens_before, tokens_after, before, after
    (sums of log-probability under the models' own distributions), law_before, law_after (under the laws of the runs:
    null where it is not known, minus infinity where the law excludes the sample), windowed, retokenised, unchosen
    (among the first samples of its problem, which were scored whatever their verdicts). All sums are
    of the scored text: what was noted at the draw is of the one end that was drawn, where a model may have several, and
    serves as a check alone.
    """

    side: str
    frame: pl.DataFrame
    samples: int  # of the run, scored or not
    unsummed: int  # scored, but without sums under one of the models
    checked: int  # of those scored, whose tokens were noted at the draw; none where stop texts end samples

    @property
    def retokenised(self) -> int:
        return int(self.frame["retokenised"].sum())

    @property
    def windowed(self) -> int:
        return int(self.frame["windowed"].sum())


def scored_samples(told: ProblemDetail, r: int, laws: tuple[RunModel, RunModel]) -> ScoredSamples:
    """The samples of run r that both models have scored."""
    one, law, side = told.comparison, laws[r], SIDES[r]
    samples = scan_shards(law.folder / "samples", SAMPLES)
    count = int(samples.select(pl.len()).collect(engine="streaming").item())
    other = SIDES[1 - r]
    named = one.counted.own[r].join(_places(one), on="problem").select("place", problem="own")
    drawn = samples.select(*KEY, "finish", "tokens", "entropy_raw", "logprob_sampled")
    found = _scores(law, laws[1 - r]).join(named.lazy(), on="problem").join(drawn, on=KEY)
    whole = found.join(_scores(law, law), on=KEY, how="left")
    judged = whole.join(_judged(law, one, r), on=KEY, how="left")
    judged = judged.with_columns(pl.col("judged").fill_null(False))
    frame = _with_texts(judged.collect(engine="streaming"), samples, told)
    summed = frame.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in SIDES)).sort("place", "index")
    stopped = bool(law.decoding.stop)  # then the end is not scored, and nothing can be checked
    rows = summed.with_columns(
        retokenised=pl.lit(False) if stopped else _read_otherwise(side, other),
        windowed=(pl.col("windows_before") > 1) | (pl.col("windows_after") > 1),
        unchosen=_unchosen(summed, frame, samples.join(named.lazy(), on="problem", how="semi")),
        **{f"law_{name}": _law_sum(name, laws[place].decoding) for place, name in enumerate(SIDES)},
    )
    return ScoredSamples(
        side=side,
        frame=rows.select(
            "place", "problem", "index", "correct", "judged", "finish", "text", "before", "after", "law_before",
            "law_after", "windowed", "retokenised", "unchosen", "tokens_before", "tokens_after",
        ),
        samples=count,
        unsummed=frame.height - summed.height,
        checked=0 if stopped else int(summed["tokens"].is_not_null().sum()),
    )  # fmt: skip


def _unchosen(rows: pl.DataFrame, scored: pl.DataFrame, samples: pl.LazyFrame) -> pl.Series:
    """Whether samples stand before the first of their problem that has no score, and so were not chosen by a verdict.

    Only correct samples are ever chosen: beyond the last scored one that is not correct, of any problem, all may be.
    """
    lacking = samples.select(KEY).join(scored.lazy().select(KEY), on=KEY, how="anti")
    gaps = lacking.group_by("problem").agg(gap=pl.col("index").min()).collect(engine="streaming")
    if gaps.is_empty():
        return pl.repeat(True, rows.height, eager=True)
    last = scored.filter(~pl.col("correct").fill_null(False))["index"].max()
    before = pl.col("gap").is_null() | (pl.col("index") < pl.col("gap"))
    joined = rows.select(KEY).join(gaps, on="problem", how="left", maintain_order="left")
    return joined.select(before & (pl.col("index") <= (-1 if last is None else last))).to_series()


def _read_otherwise(side: str, other: str) -> pl.Expr:
    """Whether a text is read as other tokens than were drawn: their number, or what was noted at the draw, is another.

    Of an ended sample the draw's sum holds one end and the scored sum all of a model's ends, so the first may be lower;
    its entropy is the same whichever end came.
    """
    length, ended = pl.col(f"tokens_{side}"), (pl.col("finish") == FINISHED).fill_null(False)
    room = LEAST_APART + APART_A_TOKEN * length
    gap = pl.col("logprob_sampled") - pl.col(f"sampled_{side}")
    entropy = (pl.col("entropy_raw") - pl.col(f"entropy_{side}")).abs() > room
    apart = (gap > room).fill_null(False) | pl.when(ended).then(entropy).otherwise(gap < -room).fill_null(False)
    counted = (pl.col("tokens") != length) | (pl.col(f"tokens_{other}") != length)
    return counted.fill_null(False) | apart


def _with_texts(frame: pl.DataFrame, samples: pl.LazyFrame, told: ProblemDetail) -> pl.DataFrame:
    """A hash of the text of each right sample on a problem that one model reached: which completions are different."""
    crossed = np.flatnonzero(np.isin(told.class_P, ["E", "S"]))
    keys = frame.filter(pl.col("correct") & pl.col("place").is_in(crossed)).select(KEY)
    here = samples.filter(pl.col("problem").is_in(keys["problem"].unique().to_list()))
    texts = here.select(*KEY, pl.col("text").fill_null("").hash(seed=0)).join(keys.lazy(), on=KEY, how="semi")
    return frame.join(texts.collect(engine="streaming"), on=KEY, how="left")


def _scores(law: RunModel, by: RunModel) -> pl.LazyFrame:
    name = scores_under(law.folder, by).name
    there = name in scored_models(law.folder)
    found = scan_scores(law.folder, name) if there else pl.LazyFrame(schema=SCORES)
    side = by.side
    return found.select(
        *KEY,
        pl.col("tokens").alias(f"tokens_{side}"),
        pl.col("logprob_raw").alias(side),
        pl.col("logprob_sampled").alias(f"sampled_{side}"),
        pl.col("entropy_raw").alias(f"entropy_{side}"),
        pl.col("windows").fill_null(1).alias(f"windows_{side}"),
    )


def _law_sum(side: str, decoding: SamplingParams) -> pl.Expr:
    """The log-probability of a sample as a whole completion under a law.

    One that was cut is a completion only of a law that cuts there; one longer than the law allows is none of it. What
    is not known to have ended, or was read in windows, has no probability that is known.
    """
    tokens, sums = pl.col(f"tokens_{side}"), pl.col(f"sampled_{side}")
    ended, cut = pl.col("finish") == FINISHED, pl.col("finish") == TRUNCATED
    possible = (ended & (tokens <= decoding.max_tokens)) | (cut & (tokens == decoding.max_tokens))
    known = (ended | cut).fill_null(False) & (pl.col(f"windows_{side}") == 1)
    return pl.when(known & possible).then(sums).when(known).then(pl.lit(float("-inf")))


def _places(one: Comparison) -> pl.DataFrame:
    return one.counted.problems.select("problem").with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))


def _judged(law: RunModel, one: Comparison, r: int) -> pl.LazyFrame:
    """Samples that have a verdict of the comparison's verifier, and whether it is correct or wrong (null: neither)."""
    verdicts = open_run(law.folder, verifier=(one.before, one.after)[r].verifier).verdicts
    assert verdicts is not None, "a run folder has samples"
    verdict = pl.col("verdict").cast(pl.String)
    read = verdict.is_in([Verdict.CORRECT.value, Verdict.WRONG.value])
    correct = pl.when(read).then(verdict == Verdict.CORRECT.value)
    return verdicts.filter(verdict.is_not_null()).select(*KEY, correct=correct, judged=pl.lit(True))
