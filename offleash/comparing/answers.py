"""Answers of runs, counted from verdicts: support per answer, and max@k.

The counts are also what guess floors are estimated from (comparing/guessing.py) and diversity (comparing/diversity.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from offleash.comparing.tally import AlignedTally, verdict_table
from offleash.data.run import Run
from offleash.data.tally import UNKNOWN, Answers, Float, Integer, Per, Tally
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.stats.pass_at_k import max_at_k


def answers(
    runs: Sequence[Run], aligned: AlignedTally, tables: Sequence[pl.DataFrame | None] | None = None
) -> list[Answers] | None:
    """The answers of every run, with shared codes; None when a run has none on record.

    Two runs that give the same answer have the same code, so sets of answers can be compared as integers. `tables` are
    the `verdict_table` of each run by answer, where they are there already.
    """
    tables = [verdict_table(run, "answer") for run in runs] if tables is None else tables
    frames = [_counts(table, names, aligned) for table, names in zip(tables, aligned.own, strict=True)]
    if any(frame is None or frame["answer"].null_count() == frame.height for frame in frames):
        return None
    known = [frame for frame in frames if frame is not None]
    # one coding for all runs: equal texts, equal integers
    labels = pl.concat([frame["answer"] for frame in known]).drop_nulls().unique().sort()
    code = pl.DataFrame({"answer": labels, "code": np.arange(len(labels))})
    return [_as_arrays(frame.join(code, on="answer", how="left"), labels) for frame in known]


def tally_of_answers(runs: Sequence[Run], aligned: AlignedTally, per: Per) -> Tally:
    """A tally whose targets are the distinct correct answers (or solutions) of every problem.

    An answer that only one run gave is a target of both, with count 0 in the other. One that neither gave is unknown,
    so class O does not exist per answer.
    """
    column = "answer" if per is Per.ANSWER else "solution"
    right = [_correct_counts(run, names, aligned, column) for run, names in zip(runs, aligned.own, strict=True)]
    target = pl.concat([frame.select("row", column) for frame in right]).unique().sort("row", column)
    hits = [target.join(frame, on=["row", column], how="left", maintain_order="left") for frame in right]
    correct_TR = np.stack([frame["count"].fill_null(0).to_numpy() for frame in hits], axis=1).astype(np.int64)
    # a target has the samples of its problem; first successes and counts among the first k are not kept per answer
    whole = aligned.tally.take(target["row"].to_numpy())
    unknown_TR = np.full_like(correct_TR, UNKNOWN)
    label_T = target[column].to_numpy().astype(np.str_)
    return replace(whole, correct_PR=correct_TR, head_PR=unknown_TR, first_PR=unknown_TR, per=per, target_P=label_T)


def _correct_counts(run: Run, names: pl.DataFrame, aligned: AlignedTally, column: str) -> pl.DataFrame:
    """Correct answers of one run with their counts: row of the tally, answer, count."""
    if run.budget.until:
        raise OffleashError(
            f"{run.name!r} stopped each problem at success {run.budget.until}, but support per {column} needs all "
            "samples of the budget; use --per problem, or draw without --until."
        )
    frame = _counts(verdict_table(run, column), names, aligned)
    right = None if frame is None else frame.filter(pl.col("verdict") == Verdict.CORRECT.value)
    if right is None or right[column].null_count() > 0:
        raise OffleashError(
            f"{run.name!r} has correct samples without a recorded {column}, so support per {column} cannot be counted; "
            f"use --per problem, or name the column with --map {column}=COLUMN."
        )
    return right.group_by("row", column).agg(pl.col("count").sum())


def _counts(table: pl.DataFrame | None, names: pl.DataFrame, aligned: AlignedTally) -> pl.DataFrame | None:
    """A run's `verdict_table` by answer, with rows of the tally for problems; unread samples have a null answer."""
    if table is None:
        return None
    rows = aligned.problems.select("problem").with_row_index("row").join(names, on="problem").select("row", "own")
    verified = table.filter(pl.col("verdict").is_not_null()).drop("first", "last")
    return verified.rename({"problem": "own"}).join(rows, on="own").with_columns(pl.col("row").cast(pl.Int64))


def _as_arrays(frame: pl.DataFrame, labels: pl.Series) -> Answers:
    """The counts as arrays; a sample without a readable answer has code -1."""
    # groups come in the order in which threads finish, and sums of floats depend on theirs: sorted, two runs of a
    # command agree to the last digit
    frame = frame.sort("row", "code", "verdict")
    return Answers(
        problem_A=frame["row"].to_numpy(),
        answer_A=frame["code"].fill_null(-1).to_numpy(),
        count_A=frame["count"].to_numpy(),
        correct_A=(frame["verdict"] == Verdict.CORRECT.value).to_numpy(),
        wrong_A=(frame["verdict"] == Verdict.WRONG.value).to_numpy(),
        label=labels.to_numpy().astype(np.str_),
    )


# Graded scores: the expected best of k samples (max@k), where a verifier gives partial credit.


@dataclass(frozen=True)
class MaxAtK:
    """max@k of two runs, mean over the problems whose samples all have a score."""

    before_K: Float
    after_K: Float


def graded(runs: Sequence[Run], aligned: AlignedTally, k_K: Integer) -> MaxAtK | None:
    """max@k of both runs; None when no score lies between 0 and 1, since then it is pass@k."""
    if any(run.verdicts is None or run.budget.until for run in runs) or not any(
        _has_partial_credit(run) for run in runs
    ):
        return None
    before, after = (_mean_max_at_k(run, names, aligned, k_K) for run, names in zip(runs, aligned.own, strict=True))
    return MaxAtK(before, after)


def _has_partial_credit(run: Run) -> bool:
    """Whether any score lies strictly between 0 and 1."""
    assert run.verdicts is not None, "checked by the caller"
    score = pl.col("score")
    return bool(run.verdicts.select(((score > 0) & (score < 1)).any()).collect(engine="streaming").item())


def _mean_max_at_k(run: Run, names: pl.DataFrame, aligned: AlignedTally, k_K: Integer) -> Float:
    """max@k of one run at every budget, averaged over the problems with at least k scored samples."""
    assert run.verdicts is not None, "checked by the caller"
    rows = aligned.problems.select("problem").with_row_index("row").join(names, on="problem").select("row", "own")
    scores = run.verdicts.select(pl.col("problem").alias("own"), "score").join(rows.lazy(), on="own").drop_nulls()
    graded_rows = scores.select("row", "score").collect(engine="streaming")
    row_S, score_S = graded_rows["row"].to_numpy(), graded_rows["score"].to_numpy()
    means = []
    for k in k_K:
        value_P = max_at_k(score_S, row_S, aligned.problems.height, int(k))
        known_P = ~np.isnan(value_P)
        means.append(value_P[known_P].mean() if known_P.any() else np.nan)
    return np.array(means)
