"""Verdicts: what a verifier said of a sample, and the table they are stored in."""

import polars as pl

from offleash.data.verdict import Verdict

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
