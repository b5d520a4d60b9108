"""Entries: what a log says, one row a sample, before problems are matched and samples numbered."""

import polars as pl

from offleash.data.verdicts import VERDICT

ENTRIES: dict[str, pl.DataType] = {
    "problem": pl.String(),  # the log's own id; where it has none, the reader uses question_hash
    "question": pl.String(),
    "gold": pl.String(),
    "benchmark": pl.String(),
    "guess": pl.Float64(),
    "sample": pl.Int64(),  # the log's own index; null: the order of the rows
    "text": pl.String(),
    "answer": pl.String(),
    "solution": pl.String(),
    "verdict": VERDICT,  # null: the log has no verdict for this sample
    "score": pl.Float64(),  # graded reward, where there is one
    "tokens": pl.Int64(),
    "finish": pl.String(),
    "split": pl.String(),  # value of the column named by --split-by
    "row": pl.Int64(),  # where in the file, from 1, for messages
}

COUNTS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "question": pl.String(),
    "gold": pl.String(),
    "benchmark": pl.String(),
    "guess": pl.Float64(),
    "n": pl.Int64(),
    "c": pl.Int64(),
    "split": pl.String(),
    "row": pl.Int64(),
}


def entries(columns: dict[str, list[object]]) -> pl.DataFrame:
    """A frame of entries from the columns a reader has; the others are null."""
    height = len(next(iter(columns.values()), []))
    unknown = columns.keys() - ENTRIES.keys()
    assert not unknown, f"not columns of entries: {unknown}"
    filled = {name: columns.get(name) or [None] * height for name in ENTRIES}
    return pl.DataFrame(filled, schema=ENTRIES, strict=False)
