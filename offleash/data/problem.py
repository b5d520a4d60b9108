"""Problems: what is asked, and the hash by which the same problem is known in two logs."""

from hashlib import blake2b

import polars as pl

PROBLEMS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "hash": pl.String(),  # of the question; null when the log keeps no text
    "question": pl.String(),
    "gold": pl.String(),
    "benchmark": pl.String(),
    "guess": pl.Float64(),  # chance that a blind guess is accepted
    "verifier": pl.String(),  # who judges its answers; null: whoever is named with --verifier
    "prompt": pl.String(),  # the whole text a model is asked, before its chat template; null: the question
    "details": pl.String(),  # JSON object: what the verifier needs beyond the gold answer (unit, choices, tests, entry)
    "images": pl.List(pl.String()),  # data: addresses, in the order in which the question shows them
}


def as_problems(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame as a table of problems: the columns it lacks are null, the others it has are dropped."""
    lacking = [pl.lit(None, kind).alias(column) for column, kind in PROBLEMS.items() if column not in frame.columns]
    return frame.with_columns(lacking).select(pl.col(column).cast(kind) for column, kind in PROBLEMS.items())


def question_hash(question: str) -> str:
    """Hash of a problem's text, blind to white space at its ends and to the kind of line endings."""
    text = question.replace("\r\n", "\n").strip()
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
