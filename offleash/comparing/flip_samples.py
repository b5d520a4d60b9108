"""The samples behind a flip: verdicts on the first k samples of every problem, and the few samples to show.

Used by comparing/flips.py; texts are read by `fetch` alone, and cleaned, since model output may steer a terminal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.data.run import Run
from offleash.data.tables import TRUNCATED
from offleash.data.verdict import Verdict
from offleash.render.escape import clean

Integer = NDArray[np.int64]

TAIL = 4000  # characters at the end of a text in which the answer is looked for
WIDTH = 120  # of a snippet, and of an answer
CORRECT = pl.col("verdict") == Verdict.CORRECT.value
_KEY = ["problem", "index"]
_OPINION_COLUMNS = ("verdict", "answer", "reason")


@dataclass(frozen=True)
class SampleWindow:
    """The first k judged samples of every problem of a run, under the rows of a tally."""

    run: Run
    verdicts: pl.LazyFrame
    problems: pl.DataFrame  # problem (the run's own id), row, limit: the samples of smaller index are within
    rows: int

    def within(self, frame: pl.LazyFrame, row_indices: Integer | None = None) -> pl.LazyFrame:
        """The rows of a table of this run that are within, with the row of the tally; `row_indices` of some rows."""
        kept = self.problems
        if row_indices is not None:
            kept = kept.filter(pl.col("row").is_in(row_indices.tolist()))
            frame = frame.filter(pl.col("problem").is_in(kept["problem"].to_list()))
        return frame.join(kept.lazy(), on="problem").filter(pl.col("index") < pl.col("limit")).drop("limit")

    def count_by_row(self, counts: pl.DataFrame, column: str = "count") -> Integer:
        """Counts by row as an array; 0 where there is none."""
        count_P = np.zeros(self.rows, dtype=np.int64)
        count_P[counts["row"].to_numpy()] = counts[column].to_numpy()
        return count_P


@dataclass(frozen=True)
class WindowCounts:
    """What the window of a run holds of every problem, by one verifier's verdicts."""

    judged_P: Integer
    correct_P: Integer
    failed_P: Integer
    by_step: dict[str, Integer]  # correct samples by the step that read their answer; "": the verdicts do not say
    has_step_names: bool  # whether any verdict names one


@dataclass(frozen=True)
class VerifierOpinion:
    """The verdict of one verifier on a sample."""

    verdict: str | None  # None: it has not judged it
    answer: str | None
    reason: str | None  # why it is wrong or failed, where the verifier says


@dataclass(frozen=True)
class DecidingSample:
    """One sample that a class rests on, cleaned for a reader: what a model wrote may steer a terminal."""

    run: str
    index: int
    verdict: str | None
    answer: str | None
    reason: str | None
    step: str | None
    finish: str | None
    alike: int  # deciding samples of this problem and run with the same answer, this one included
    others: dict[str, VerifierOpinion]  # by verifier
    text: str | None  # the end of the text, around the answer; None: not kept


def open_window(
    run: Run, names: pl.DataFrame, problem_P: NDArray[np.str_], k: int, stopped_P: NDArray[np.bool_]
) -> SampleWindow:
    """The window of a run; where indices have gaps or samples no verdict, the first k that were judged.

    Args:
        run: a run with verdicts.
        names: its own ids of the aligned problems.
        problem_P: the problems in the order of the tally.
        k: how many samples of each problem count.
        stopped_P: records that ended early on purpose; they are not short of samples.
    """
    assert run.verdicts is not None, "bare counts hold no samples"
    order = pl.DataFrame({"problem": problem_P, "row": np.arange(len(problem_P))})
    own = names.join(order, on="problem").select(problem="own", row="row", limit=pl.lit(k, pl.Int64))
    plain = SampleWindow(run, run.verdicts, own, len(problem_P))
    judged = plain.within(run.verdicts).group_by("row").agg(pl.col("verdict").count().alias("count"))
    judged_P = plain.count_by_row(judged.collect(engine="streaming"))
    # nearly all runs have contiguous indices: the slower search below is for the others
    short = np.flatnonzero((judged_P < k) & ~stopped_P)
    if not short.size:
        return plain
    gaps = own.filter(pl.col("row").is_in(short.tolist()))
    ends = (
        run.verdicts.filter(pl.col("verdict").is_not_null() & pl.col("problem").is_in(gaps["problem"].to_list()))
        .group_by("problem")
        .agg((pl.col("index").bottom_k(k).max().cast(pl.Int64) + 1).alias("end"))
        .collect(engine="streaming")
    )
    limit = pl.coalesce("end", "limit").alias("limit")
    return replace(plain, problems=own.join(ends, on="problem", how="left").with_columns(limit).drop("end"))


def count_verdicts(window: SampleWindow, verdicts: pl.LazyFrame) -> WindowCounts:
    """Count the verdicts of one verifier in the window of a run."""
    counts = (
        window.within(verdicts)
        .filter(pl.col("verdict").is_not_null())
        .group_by("row", "step", "verdict")
        .agg(pl.len().alias("count"))
        .collect(engine="streaming")
        .with_columns(pl.col("step").fill_null(""), pl.col("count").cast(pl.Int64))
    )

    def total(part: pl.DataFrame) -> Integer:
        return window.count_by_row(part.group_by("row").agg(pl.col("count").sum()))

    right = counts.filter(CORRECT)
    failed = counts.filter(pl.col("verdict") == Verdict.FAILED.value)
    steps = right["step"].unique().sort().to_list()
    by_step = {step: total(right.filter(pl.col("step") == step)) for step in steps}
    return WindowCounts(total(counts), total(right), total(failed), by_step, bool((counts["step"] != "").any()))


def records_endings(run: Run) -> bool:
    """Whether a run records for any sample how it ended."""
    if run.samples is None:
        return False
    return bool(run.samples.select(pl.col("finish").is_not_null().any()).collect(engine="streaming").item())


def truncated_correct(window: SampleWindow, row_indices: Integer) -> Integer:
    """Correct samples of the window that were cut at the token limit, of some rows; 0 elsewhere."""
    if window.run.samples is None or not row_indices.size:
        return np.zeros(window.rows, dtype=np.int64)
    right = window.within(window.verdicts.select("problem", "index", "verdict").filter(CORRECT), row_indices)
    both = right.select("row", "index").join(_truncated_rows(window, row_indices), on=["row", "index"], how="semi")
    counts = both.group_by("row").agg(pl.len().cast(pl.Int64).alias("count")).collect(engine="streaming")
    return window.count_by_row(counts)


def truncated_of(window: SampleWindow, row_indices: Integer) -> pl.DataFrame:
    """Samples of some rows that were cut at the token limit: row, index."""
    return _truncated_rows(window, row_indices).collect(engine="streaming")


def decisive_samples(window: SampleWindow, verdicts: pl.LazyFrame, row_indices: Integer) -> pl.DataFrame:
    """Correct and failed samples of some rows: row, index, verdict, answer, step."""
    is_decisive = CORRECT | (pl.col("verdict") == Verdict.FAILED.value)
    columns = ["row", "index", "verdict", "answer", "step"]
    return window.within(verdicts.filter(is_decisive), row_indices).select(columns).collect(engine="streaming")


def choose_samples(deciding_samples: pl.DataFrame, shown: int) -> pl.DataFrame:
    """A few of the deciding samples of every row, different answers first: row, index, alike.

    One sample per answer comes before a second of any: alike samples would show the same reading twice.
    """
    distinct = deciding_samples.unique(["row", "index"], keep="first")
    ranked = distinct.with_columns(
        alike=pl.len().over("row", "answer").cast(pl.Int64),
        rank=pl.col("index").rank("ordinal").over("row", "answer"),
    )
    ordered = ranked.sort("row", "rank", "index")
    return ordered.filter(pl.int_range(pl.len()).over("row") < shown).select("row", "index", "alike")


def fetch(
    window: SampleWindow, selected: pl.DataFrame, others: Mapping[str, pl.LazyFrame]
) -> dict[int, tuple[DecidingSample, ...]]:
    """The picked samples with all that is known of them, by row; the only place where texts are read."""
    wanted = selected.join(window.problems.select("problem", "row"), on="row").select(
        "problem", "row", "index", "alike"
    )
    samples_to_show = wanted.join(
        _columns_at(window.verdicts, wanted, "verdict", "answer", "reason", "step"), on=_KEY, how="left"
    )
    kept = pl.LazyFrame(schema={"problem": pl.String(), "index": pl.UInt32()})
    samples = kept if window.run.samples is None else window.run.samples
    samples_to_show = samples_to_show.join(_columns_at(samples, wanted, "finish", "text"), on=_KEY, how="left")
    sample_columns = {
        name: {
            (row[0], row[1]): VerifierOpinion(*map(_clip, row[2:]))
            for row in _columns_at(frame, wanted, *_OPINION_COLUMNS).rows()
        }
        for name, frame in others.items()
    }
    by_row: dict[int, list[DecidingSample]] = {}
    for sample in samples_to_show.sort("row", "index").iter_rows(named=True):
        key = sample["problem"], sample["index"]
        opinions = {
            name: by_sample.get(key, VerifierOpinion(None, None, None)) for name, by_sample in sample_columns.items()
        }
        by_row.setdefault(sample["row"], []).append(_sample(window.run.name, sample, opinions))
    return {row: tuple(samples) for row, samples in by_row.items()}


def snippet(text: str, answer: str | None, width: int = WIDTH) -> str:
    """The part of a text around the last occurrence of the answer, else its end; cleaned for a terminal."""
    start = text.rfind(answer) if answer else -1
    middle = len(text) if start < 0 or answer is None else start + min(len(answer), width) // 2
    low = max(0, min(middle - width // 2, len(text) - width))
    part = clean(text[low : low + width])
    return ("…" if low > 0 else "") + part + ("…" if low + width < len(text) else "")


def _truncated_rows(window: SampleWindow, row_indices: Integer) -> pl.LazyFrame:
    """Samples of some rows that ended at the token limit, lazily: row, index."""
    assert window.run.samples is not None, "checked by the caller"
    ended = window.run.samples.select("problem", "index", "finish").filter(pl.col("finish") == TRUNCATED)
    return window.within(ended, row_indices).select("row", "index")


def _columns_at(frame: pl.LazyFrame, keys: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Some columns of a few samples, null where the table lacks one; of a text only its end."""
    known = frame.collect_schema().names()
    read = [pl.col(name) if name in known else pl.lit(None, pl.String).alias(name) for name in columns]
    ends = [column.str.tail(TAIL) if name == "text" else column for name, column in zip(columns, read, strict=True)]
    near = frame.filter(pl.col("problem").is_in(keys["problem"].unique().to_list()))
    wanted = near.join(keys.lazy().select(_KEY), on=_KEY, how="semi").select(*_KEY, *ends)
    return wanted.unique(_KEY, keep="last").collect(engine="streaming")


def _sample(run: str, row: dict[str, object], others: dict[str, VerifierOpinion]) -> DecidingSample:
    """One row of the joined tables as a sample to show.

    The snippet is centred on the answer that the present verifier read, else on one that another verifier read.
    """
    text, answer = _optional_text(row["text"]), _optional_text(row["answer"])
    read = next(
        (answer_text for answer_text in (answer, *(opinion.answer for opinion in others.values())) if answer_text), None
    )
    return DecidingSample(
        run=run,
        index=int(str(row["index"])),
        verdict=_optional_text(row["verdict"]),
        answer=_clip(answer),
        reason=_clip(_optional_text(row["reason"])),
        step=_clip(_optional_text(row["step"])),
        finish=_clip(_optional_text(row["finish"])),
        alike=int(str(row["alike"])),
        others=others,
        text=None if text is None else snippet(text, read),
    )


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _clip(text: str | None) -> str | None:
    """A text clipped to the width of a line, and cleaned."""
    if text is None:
        return None
    return clean(text[:WIDTH]) + ("…" if len(text) > WIDTH else "")
