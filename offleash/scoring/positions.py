"""Positions of tokens: how the entropies of read texts add up by where a token stands and how high it is."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.data.positions import END, HEIGHT, POSITIONS, SAMPLES, SINGLE, START, STEP, TENTH

Ints = NDArray[np.int64]
Entropies = NDArray[np.float32]
KEY = ["problem", "index"]


def positions_of(problems: Sequence[str], texts: Sequence[Entropies], times: Sequence[int]) -> pl.DataFrame:
    """POSITIONS of texts: the problem of each, the entropy of each of its tokens, and how often it was drawn."""
    names = list(dict.fromkeys(problems))
    code = {name: number for number, name in enumerate(names)}
    code_N = np.array([code[name] for name in problems], np.int64)
    times_N, length_N = np.array(times, np.int64), np.array([len(text) for text in texts], np.int64)
    entropy_M = np.concatenate([*texts, np.zeros(0, np.float32)]).astype(np.float64)
    code_M, times_M = np.repeat(code_N, length_N), np.repeat(times_N, length_N)
    at_M = np.arange(entropy_M.size) - np.repeat(np.cumsum(length_N) - length_N, length_N)
    long_M = np.repeat(length_N, length_N)
    bins = {
        START: _edge(at_M),
        END: _edge(long_M - 1 - at_M),
        TENTH: 10 * at_M // np.maximum(long_M, 1),
        HEIGHT: np.maximum(entropy_M / STEP + 1e-6, 0).astype(np.int64),
    }
    parts = [_summed(names, kind, code_M, bin_M, times_M, entropy_M) for kind, bin_M in bins.items()]
    parts.append(_summed(names, SAMPLES, code_N, np.zeros_like(code_N), times_N, np.zeros(len(code_N))))
    return pl.concat(parts)


def placed_samples(positions: pl.DataFrame, keys: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame | None:
    """Which of a shard's samples its positions are of: the first ones of each problem, by index, as many as they count.

    None where some of those have no score: then the positions are of others, or more was written than scored.
    """
    count = positions.filter(pl.col("kind") == SAMPLES).group_by("problem").agg(count=pl.col("tokens").sum())
    found = _ranked(keys).join(count, on="problem").filter(pl.col("rank") <= pl.col("count")).select(*KEY)
    whole = found.height == count["count"].sum() and found.join(scored, on=KEY, how="anti").is_empty()
    return found if whole else None


def are_first(scored: pl.DataFrame, keys: pl.DataFrame) -> bool:
    """Whether samples are the first ones of their problems, by index, among all keys."""
    count = scored.group_by("problem").agg(count=pl.len())
    last = _ranked(keys).join(scored, on=KEY, how="semi").group_by("problem").agg(last=pl.col("rank").max())
    return bool(count.join(last, on="problem").select((pl.col("count") == pl.col("last")).all()).item())


def _ranked(keys: pl.DataFrame) -> pl.DataFrame:
    return keys.select(*KEY, rank=pl.col("index").rank("ordinal").over("problem").cast(pl.UInt64))


def _edge(at_M: Ints) -> Ints:
    """The lower edge of a token's bin: itself, then powers of two."""
    power = np.floor(np.log2(np.maximum(at_M, 1) + 0.5)).astype(np.int64)  # the half keeps 2**n from rounding down
    return np.where(at_M < SINGLE, at_M, 1 << power)


def _summed(
    names: list[str], kind: str, code_M: Ints, bin_M: Ints, times_M: Ints, entropy_M: np.ndarray
) -> pl.DataFrame:
    width = int(bin_M.max(initial=0)) + 1
    key_U, key_M = np.unique(code_M * width + bin_M, return_inverse=True)
    tokens_U = np.bincount(key_M, weights=times_M, minlength=key_U.size)
    entropy_U = np.bincount(key_M, weights=times_M * entropy_M, minlength=key_U.size)
    return pl.DataFrame(
        {
            "problem": [names[number] for number in (key_U // width).tolist()],
            "kind": [kind] * key_U.size,
            "bin": (key_U % width).astype(np.int32),
            "tokens": tokens_U.astype(np.uint64),
            "entropy": entropy_U,
        },
        schema=POSITIONS,
    )
