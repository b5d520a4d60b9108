"""Samples: one row a completion, identified by (problem, index), written once."""

import polars as pl

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
