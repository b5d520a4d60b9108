"""Answers of runs, counted from their verdicts: for entropy, majority, blind guessing, and support per answer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from offleash.comparing.tally import Counted
from offleash.data.answers import Answers
from offleash.data.run import Run
from offleash.data.tally import UNKNOWN, Per, Tally
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError


def answers(runs: Sequence[Run], counted: Counted) -> list[Answers] | None:
    """The answers of every run, with shared codes; None when a run has none on record."""
    frames = [_counts(run, names, counted) for run, names in zip(runs, counted.own, strict=True)]
    if any(frame is None or frame["answer"].null_count() == frame.height for frame in frames):
        return None
    found = [frame for frame in frames if frame is not None]
    labels = pl.concat([frame["answer"] for frame in found]).drop_nulls().unique().sort()
    code = pl.DataFrame({"answer": labels, "code": np.arange(len(labels))})
    return [_coded(frame.join(code, on="answer", how="left"), labels) for frame in found]


def tally_of_answers(runs: Sequence[Run], counted: Counted, per: Per) -> Tally:
    """A tally whose targets are the distinct correct answers (or solutions) of every problem."""
    column = "answer" if per is Per.ANSWER else "solution"
    right = [_right(run, names, counted, column) for run, names in zip(runs, counted.own, strict=True)]
    target = pl.concat([frame.select("row", column) for frame in right]).unique().sort("row", column)
    hits = [target.join(frame, on=["row", column], how="left", maintain_order="left") for frame in right]
    correct_TR = np.stack([frame["count"].fill_null(0).to_numpy() for frame in hits], axis=1).astype(np.int64)
    whole = counted.tally.take(target["row"].to_numpy())
    none_TR = np.full_like(correct_TR, UNKNOWN)
    label_T = target[column].to_numpy().astype(np.str_)
    return replace(whole, correct_PR=correct_TR, head_PR=none_TR, first_PR=none_TR, per=per, target_P=label_T)


def _right(run: Run, names: pl.DataFrame, counted: Counted, column: str) -> pl.DataFrame:
    """Correct answers of one run with their counts: row of the tally, answer, count."""
    if run.budget.until:
        raise OffleashError(
            f"{run.name!r} stopped at success {run.budget.until} of each problem, and support per {column} needs every "
            "sample of the budget; use --per problem, or draw without --until."
        )
    frame = _counts(run, names, counted, column)
    right = None if frame is None else frame.filter(pl.col("verdict") == Verdict.CORRECT.value)
    if right is None or right[column].null_count() > 0:
        raise OffleashError(
            f"{run.name!r} has correct samples without a recorded {column}, so support per {column} cannot be counted; "
            f"use --per problem, or name the column with --map {column}=COLUMN."
        )
    return right.group_by("row", column).agg(pl.col("count").sum())


def _counts(run: Run, names: pl.DataFrame, counted: Counted, column: str = "answer") -> pl.DataFrame | None:
    """Rows (row of the tally, answer, verdict, count) of one run; unread samples have a null answer."""
    if run.verdicts is None or run.budget.until:
        return None
    rows = counted.problems.select("problem").with_row_index("row").join(names, on="problem").select("row", "own")
    verified = run.verdicts.filter(pl.col("verdict").is_not_null()).select("problem", column, "verdict")
    grouped = verified.group_by("problem", column, "verdict").agg(pl.len().alias("count")).collect(engine="streaming")
    return grouped.rename({"problem": "own"}).join(rows, on="own").with_columns(pl.col("row", "count").cast(pl.Int64))


def _coded(frame: pl.DataFrame, labels: pl.Series) -> Answers:
    return Answers(
        problem_A=frame["row"].to_numpy(),
        answer_A=frame["code"].fill_null(-1).to_numpy(),
        count_A=frame["count"].to_numpy(),
        correct_A=(frame["verdict"] == Verdict.CORRECT.value).to_numpy(),
        wrong_A=(frame["verdict"] == Verdict.WRONG.value).to_numpy(),
        label=labels.to_numpy().astype(np.str_),
    )
