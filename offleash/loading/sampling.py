"""A seeded sample of problems: the same seed and the same problems give the same sample, in the file's order."""

import numpy as np
import polars as pl

from offleash.errors import OffleashError

STREAM = 0x0FF1  # told apart from other uses of the same seed


def sampled(frame: pl.DataFrame, size: int, seed: int, name: str) -> pl.DataFrame:
    """`size` of the problems at random, without replacement."""
    if size < 1:
        raise OffleashError(f"A sample holds at least one problem; found --size {size}.")
    if seed < 0:
        raise OffleashError(f"A seed is 0 or more; found --seed {seed}.")
    if size > frame.height:
        raise OffleashError(
            f"{name} has {frame.height} problems, fewer than --size {size}. Ask for at most {frame.height}."
        )
    places = np.random.default_rng([seed, STREAM]).choice(frame.height, size=size, replace=False)
    return frame[np.sort(places)]
