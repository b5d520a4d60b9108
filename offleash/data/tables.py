"""Table schemas: problems, samples and verdicts of a run, and entries and counts as a log reader returns them.

A problem is recognised in two logs by `question_hash`; a sample is identified by (problem, index) and written once.
ENTRIES and COUNTS come before problems are matched and samples numbered. A `Note` says what was repaired, chosen or
left out on the way from a file to a table: nothing is dropped without one.
"""

from dataclasses import dataclass
from hashlib import blake2b

import polars as pl

from offleash.data.verdict import Verdict


@dataclass(frozen=True)
class Note:
    """A repair or a choice made while reading; nothing is left out without one."""

    text: str
    rows: int = 0  # how many rows it touched or left out
    left_out: bool = False  # whether those rows were dropped
    warning: bool = False  # whether it may change what the result means, and is shown above the table
    code: str = ""  # of a warning: a name for programs, which stays when the text changes (docs/json.md)


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
    "identity": pl.String(),  # the tool's own name of the problem's content (lm-eval's doc_hash); null: it has none
    "contents": pl.String(),  # JSON object: hashes of choices, images, tests, context in a log (data/content.py)
    "columns": pl.String(),  # JSON object: further columns of a user's file, for verifiers that take them
}


def as_problems(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame as a table of problems: the columns it lacks are null, the others it has are dropped."""
    null_columns = [
        pl.lit(None, kind).alias(column) for column, kind in PROBLEMS.items() if column not in frame.columns
    ]
    return frame.with_columns(null_columns).select(pl.col(column).cast(kind) for column, kind in PROBLEMS.items())


def question_hash(question: str) -> str:
    """Hash of a problem's text, blind to white space at its ends and to the kind of line endings."""
    text = question.replace("\r\n", "\n").strip()
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


SAMPLES: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "text": pl.String(),
    "tokens": pl.UInt32(),
    "finish": pl.String(),  # "length" marks a truncated sample
    "seed": pl.UInt64(),
    "logprob_raw": pl.Float64(),  # sums over the tokens of a sample; null where a backend cannot say
    "logprob_sampled": pl.Float64(),
    "entropy_raw": pl.Float64(),
    "entropy_sampled": pl.Float64(),
}

TRUNCATED = "length"

VERDICT = pl.Enum([verdict.value for verdict in Verdict])

VERDICTS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "verdict": VERDICT,  # null: the sample has not been verified
    "answer": pl.String(),
    "solution": pl.String(),
    "step": pl.String(),
    "score": pl.Float64(),
    "reason": pl.String(),  # why it failed or is wrong, where the verifier says so
}

ENTRIES: dict[str, pl.DataType] = {
    "problem": pl.String(),  # the log's own id; where it has none, the reader uses question_hash
    "question": pl.String(),
    "gold": pl.String(),
    "benchmark": pl.String(),
    "guess": pl.Float64(),
    "identity": pl.String(),
    "contents": pl.String(),
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
    "identity": pl.String(),
    "contents": pl.String(),
    "n": pl.Int64(),
    "c": pl.Int64(),
    "split": pl.String(),
    "row": pl.Int64(),
}


def entries(columns: dict[str, list[object]]) -> pl.DataFrame:
    """A frame of entries from the columns a reader has; the others are null."""
    height = len(next(iter(columns.values()), []))
    unknown_columns = columns.keys() - ENTRIES.keys()
    assert not unknown_columns, f"unknown columns: {unknown_columns}"
    complete_columns = {name: columns.get(name) or [None] * height for name in ENTRIES}
    return pl.DataFrame(complete_columns, schema=ENTRIES, strict=False)
