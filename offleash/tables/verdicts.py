"""Verdicts: what a verifier said of a sample, and the table they are stored in."""

from enum import StrEnum

import polars as pl


class Verdict(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNREAD = "unread"  # no answer was found in the text: not the same as a wrong one
    FAILED = "failed"  # the verifier timed out or crashed: says nothing of the model


VERDICT = pl.Enum([verdict.value for verdict in Verdict])

VERDICTS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "verdict": VERDICT,  # null: the sample has not been verified
    "answer": pl.String(),
    "solution": pl.String(),
    "step": pl.String(),
    "score": pl.Float64(),
}
