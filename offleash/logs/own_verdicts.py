"""A log's own verdicts: words, booleans and scores as correct, wrong or unread, with notes on odd ones.

All formats go through `VerdictReader`, so that a mark means the same in each of them. A mark that is missing is no
verdict: the sample is unverified, not wrong, because a tool that crashed would otherwise make a model look worse.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.data.tables import VERDICT, Note
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.files.rows import shown

# `c` and `i` are Inspect's. Any other word is an error, not a guess.
VERDICT_WORDS: dict[str, Verdict] = {
    "true": Verdict.CORRECT,
    "correct": Verdict.CORRECT,
    "right": Verdict.CORRECT,
    "pass": Verdict.CORRECT,
    "passed": Verdict.CORRECT,
    "yes": Verdict.CORRECT,
    "c": Verdict.CORRECT,
    "false": Verdict.WRONG,
    "incorrect": Verdict.WRONG,
    "wrong": Verdict.WRONG,
    "fail": Verdict.WRONG,
    "failed": Verdict.WRONG,
    "no": Verdict.WRONG,
    "i": Verdict.WRONG,
    "unread": Verdict.UNREAD,
}


@dataclass
class VerdictReader:
    """Reads the marks of one file by one threshold, and counts what a user should know about them."""

    path: Path
    threshold: float  # a score at or above it is correct
    partial: int = 0  # scores above 0 that count as wrong
    scores_above_1: int = 0  # scores above 1: the threshold of 1 may not be what the user wants
    missing: int = 0  # null or NaN
    first_missing: int = 0  # row
    empty: int = 0  # rows without a sample
    first_empty: int = 0  # row
    samples_with_shared_verdict: int = 0  # samples that have one verdict per problem between them

    def mark(self, value: object, row: int) -> tuple[str | None, float | None]:
        """Verdict and score of one mark.

        Args:
            value: As the log has it: a boolean, a word, a number, a number as text, null.
            row: For the error, where the value is none of these.

        Returns:
            The verdict and the score. Both None for a null mark, which is counted; no score for words and booleans.
        """
        if isinstance(value, bool):
            return (Verdict.CORRECT if value else Verdict.WRONG), None
        if isinstance(value, str):
            word = VERDICT_WORDS.get(value.strip().lower())
            if word is not None:
                return word, None
        score = _number(value)
        if score is None:
            raise self.unknown_verdict_error(value, row)
        if math.isnan(score):
            self._miss(1, row)
            return None, None
        self.partial += 0 < score < min(1.0, self.threshold)
        self.scores_above_1 += score > 1
        return (Verdict.CORRECT if score >= self.threshold else Verdict.WRONG), score

    def marks(self, values: pl.Series, rows: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Verdicts and scores of a whole column: each distinct word is read once, numbers all at once."""
        if values.dtype.is_numeric():
            return self._scores(values.cast(pl.Float64), rows)
        seen = values.unique(maintain_order=True)
        if values.dtype == pl.String and len(seen) > 100:  # graded scores written as text, as in a CSV file
            scores = values.str.strip_chars().cast(pl.Float64, strict=False)
            if scores.null_count() == values.null_count():
                return self._scores(scores, rows)
        before = self.partial, self.scores_above_1, self.missing
        results_by_value = {value: self.mark(value, self._row_of(values, rows, value)) for value in seen.to_list()}
        self.partial, self.scores_above_1, self.missing = before  # the marks were read once each, not once a row
        verdicts = pl.Series([results_by_value[value][0] for value in values.to_list()], dtype=VERDICT)
        scores = pl.Series([results_by_value[value][1] for value in values.to_list()], dtype=pl.Float64)
        self._count(scores, verdicts, rows)
        return verdicts, scores

    def no_sample(self, row: int, count: int = 1) -> None:
        """Rows of a problem for which nothing was drawn."""
        self.empty += count
        self.first_empty = self.first_empty or row

    def notes(self) -> list[Note]:
        """What the marks were that a count of correct and wrong does not show."""
        notes = []
        if self.empty:
            text = (
                f"{self.path.name}: {self.empty} rows have no sample (first: row {self.first_empty}) and were left out."
            )
            notes.append(Note(text, self.empty, left_out=True))
        if self.samples_with_shared_verdict:
            notes.append(
                Note(
                    f"{self.path.name}: {self.samples_with_shared_verdict} samples share one verdict per problem, "
                    "which does not say which of them are correct; they are kept as unverified.",
                    self.samples_with_shared_verdict,
                )
            )
        if self.partial:
            notes.append(
                Note(
                    f"{self.path.name}: {self.partial} scores are above 0 and below the threshold {self.threshold:g}; "
                    "partial credit counts as wrong. Change the threshold with --threshold.",
                    self.partial,
                )
            )
        if self.scores_above_1:
            text = (
                f"{self.scores_above_1} scores are above 1; {self.threshold:g} or more counts as correct (--threshold)."
            )
            notes.append(Note(f"{self.path.name}: {text}", self.scores_above_1))
        if self.missing:
            notes.append(
                Note(
                    f"{self.path.name}: {self.missing} samples have no verdict (null or NaN, first in row "
                    f"{self.first_missing}); they are kept as unverified, not as wrong.",
                    self.missing,
                )
            )
        return notes

    def unknown_verdict_error(self, value: object, row: int) -> OffleashError:
        """The refusal of a value that is not a verdict in any log we know."""
        if isinstance(value, str) and value.strip().startswith("["):
            return OffleashError(
                f"{self.path}: row {row}: the verdict is {shown(value)}, a list as text. Save the table as JSONL or "
                "Parquet, which hold lists, or write one sample per row."
            )
        return OffleashError(
            f"{self.path}: row {row}: the verdict is {shown(value)}. It must be true or false, 0 or 1, a score, or a "
            f"word such as correct, incorrect, passed, failed. --map verdict=NAME reads it from another column."
        )

    def _scores(self, scores: pl.Series, rows: pl.Series) -> tuple[pl.Series, pl.Series]:
        scores = scores.fill_nan(None)
        verdicts = pl.select(
            pl.when(scores.is_null())
            .then(None)
            .when(scores >= self.threshold)
            .then(pl.lit(Verdict.CORRECT.value))
            .otherwise(pl.lit(Verdict.WRONG.value))
            .cast(VERDICT)
        ).to_series()
        self._count(scores, verdicts, rows)
        return verdicts, scores

    def _count(self, scores: pl.Series, verdicts: pl.Series, rows: pl.Series) -> None:
        self.partial += int(((scores > 0) & (scores < min(1.0, self.threshold))).sum())
        self.scores_above_1 += int((scores > 1).sum())
        empty = verdicts.is_null()
        if empty.any():
            self._miss(int(empty.sum()), int(rows.filter(empty)[0]))

    def _miss(self, count: int, row: int) -> None:
        self.missing += count
        self.first_missing = self.first_missing or row

    @staticmethod
    def _row_of(values: pl.Series, rows: pl.Series, value: object) -> int:
        where = values.is_null() if value is None else values == value
        return int(rows.filter(where)[0])


def _number(value: object) -> float | None:
    """A mark as a number: NaN for null, None for what cannot be one."""
    if value is None or value == "":
        return math.nan
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
