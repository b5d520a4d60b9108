"""The samples of a run under the laws of both runs: one row a sample that was scored."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.samplers.sampler import FINISHED, TRUNCATED, Decoding
from offleash.study.compare import Comparison
from offleash.study.detail import Detail
from offleash.study.likelihood_law import SIDES, Law, scores_under
from offleash.tables.folder import open_run
from offleash.tables.samples import SAMPLES
from offleash.tables.scores import SCORES, scan_scores, scored_models
from offleash.tables.shards import scan_shards
from offleash.tables.verdict import Verdict

KEY = ["problem", "index"]
# How far the sum that was noted at the draw may be from that of the text: rounding, of another engine too; a text that
# is read as other tokens differs by far more.
LEAST_APART, APART_A_TOKEN = 0.05, 0.005


@dataclass(frozen=True)
class Scored:
    """The scored samples of one run.

    Columns: place (row of the tally), problem, index, correct, finish, text (a hash, where it is needed),
    tokens_before, tokens_after, before, after (sums of log-probability under the models' own distributions),
    law_before, law_after (under the laws of the runs: null where it is not known, minus infinity where the law excludes
    the sample), drawn (under its own law as it was noted at the draw, null where it was not), windowed, retokenised.
    """

    side: str
    frame: pl.DataFrame
    samples: int  # of the run, scored or not
    unsummed: int  # scored, but without sums under one of the models
    checked: int  # of those scored, whose tokens were noted at the draw

    @property
    def retokenised(self) -> int:
        return int(self.frame["retokenised"].sum())

    @property
    def windowed(self) -> int:
        return int(self.frame["windowed"].sum())


def scored_samples(told: Detail, r: int, laws: tuple[Law, Law]) -> Scored:
    """The samples of run r that both models have scored; its own model's word may be that of the draw."""
    one, law, side = told.comparison, laws[r], SIDES[r]
    samples = scan_shards(law.folder / "samples", SAMPLES)
    count = int(samples.select(pl.len()).collect(engine="streaming").item())
    other = SIDES[1 - r]
    named = one.counted.own[r].join(_places(one), on="problem").select("place", problem="own")
    drawn = samples.select(*KEY, "finish", "tokens", "logprob_raw", "logprob_sampled")
    found = _scores(law, laws[1 - r]).join(named.lazy(), on="problem").join(drawn, on=KEY)
    whole = found.join(_scores(law, law), on=KEY, how="left").with_columns(
        pl.coalesce(side, "logprob_raw").alias(side),
        pl.coalesce(f"sampled_{side}", "logprob_sampled").alias(f"sampled_{side}"),
        pl.coalesce(f"tokens_{side}", "tokens").alias(f"tokens_{side}"),
        pl.col(f"windows_{side}").fill_null(1),
    )
    judged = whole.join(_right(law, one, r), on=KEY, how="left").with_columns(pl.col("correct").fill_null(False))
    frame = _with_texts(judged.collect(engine="streaming"), samples, told)
    summed = frame.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in SIDES)).sort("place", "index")
    own = pl.col(f"sampled_{side}")
    length = pl.col(f"tokens_{side}")
    apart = (pl.col("logprob_sampled") - own).abs() > LEAST_APART + APART_A_TOKEN * length
    counted = (pl.col("tokens") != length) | (pl.col(f"tokens_{other}") != length)
    rows = summed.with_columns(
        retokenised=(counted.fill_null(False) | apart.fill_null(False)),
        windowed=(pl.col("windows_before") > 1) | (pl.col("windows_after") > 1),
        **{f"law_{name}": _law_sum(name, laws[place].decoding) for place, name in enumerate(SIDES)},
    )
    return Scored(
        side=side,
        frame=rows.select(
            "place", "problem", "index", "correct", "finish", "text", "before", "after", "law_before", "law_after",
            "windowed", "retokenised", "tokens_before", "tokens_after", drawn="logprob_sampled",
        ),
        samples=count,
        unsummed=frame.height - summed.height,
        checked=int(summed["tokens"].is_not_null().sum()),
    )  # fmt: skip


def _with_texts(frame: pl.DataFrame, samples: pl.LazyFrame, told: Detail) -> pl.DataFrame:
    """A hash of the text of each right sample on a problem that one model reached: which completions are different."""
    crossed = np.flatnonzero(np.isin(told.class_P, ["E", "S"]))
    keys = frame.filter(pl.col("correct") & pl.col("place").is_in(crossed)).select(KEY)
    here = samples.filter(pl.col("problem").is_in(keys["problem"].unique().to_list()))
    texts = here.select(*KEY, pl.col("text").fill_null("").hash(seed=0)).join(keys.lazy(), on=KEY, how="semi")
    return frame.join(texts.collect(engine="streaming"), on=KEY, how="left")


def _scores(law: Law, by: Law) -> pl.LazyFrame:
    name = scores_under(law.folder, by).name
    there = name in scored_models(law.folder)
    found = scan_scores(law.folder, name) if there else pl.LazyFrame(schema=SCORES)
    side = by.side
    return found.select(
        *KEY,
        pl.col("tokens").alias(f"tokens_{side}"),
        pl.col("logprob_raw").alias(side),
        pl.col("logprob_sampled").alias(f"sampled_{side}"),
        pl.col("windows").fill_null(1).alias(f"windows_{side}"),
    )


def _law_sum(side: str, decoding: Decoding) -> pl.Expr:
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


def _right(law: Law, one: Comparison, r: int) -> pl.LazyFrame:
    """Keys of the samples that the comparison's verifier found correct."""
    verdicts = open_run(law.folder, verifier=(one.before, one.after)[r].verifier).verdicts
    assert verdicts is not None, "a run folder has samples"
    right = pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value
    return verdicts.filter(right.fill_null(False)).select(*KEY, correct=pl.lit(True))
