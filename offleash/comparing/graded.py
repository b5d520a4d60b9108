"""Graded scores: the expected best of k samples (max@k), where a verifier gives partial credit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.comparing.tally import Counted
from offleash.data.run import Run
from offleash.data.tally import Float, Integer
from offleash.stats.pass_at_k import max_at_k


@dataclass(frozen=True)
class Graded:
    """max@k of two runs, mean over the problems whose samples all have a score."""

    before_K: Float
    after_K: Float


def graded(runs: Sequence[Run], counted: Counted, k_K: Integer) -> Graded | None:
    """max@k of both runs; None when no score lies between 0 and 1, since then it is pass@k."""
    if any(run.verdicts is None or run.budget.until for run in runs) or not any(_partial(run) for run in runs):
        return None
    before, after = (_best(run, names, counted, k_K) for run, names in zip(runs, counted.own, strict=True))
    return Graded(before, after)


def _partial(run: Run) -> bool:
    assert run.verdicts is not None, "checked by the caller"
    score = pl.col("score")
    return bool(run.verdicts.select(((score > 0) & (score < 1)).any()).collect(engine="streaming").item())


def _best(run: Run, names: pl.DataFrame, counted: Counted, k_K: Integer) -> Float:
    assert run.verdicts is not None, "checked by the caller"
    rows = counted.problems.select("problem").with_row_index("row").join(names, on="problem").select("row", "own")
    scores = run.verdicts.select(pl.col("problem").alias("own"), "score").join(rows.lazy(), on="own").drop_nulls()
    found = scores.select("row", "score").collect(engine="streaming")
    row_S, score_S = found["row"].to_numpy(), found["score"].to_numpy()
    means = []
    for k in k_K:
        value_P = max_at_k(score_S, row_S, counted.problems.height, int(k))
        known_P = ~np.isnan(value_P)
        means.append(value_P[known_P].mean() if known_P.any() else np.nan)
    return np.array(means)
