"""Pilots: a few samples of every problem at a temperature, with the same random numbers at all of them; kept."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.shards import write_whole
from offleash.drawing.resume import askable
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.samplers.sampler import Decoding, Request, Sampler
from offleash.samplers.seeds import seed_of
from offleash.stats.binomials import Float

SIZE = 32  # samples of a problem: k of the paper's token entropies
KEPT = {"problem": pl.String(), "temperature": pl.Float64(), "entropy": pl.Float64()}


@dataclass
class Pilots:
    """Token entropies of one model by temperature, of the problems asked for."""

    sampler: Sampler
    model: str
    problems: pl.DataFrame
    decoding: Decoding
    seed: int
    folder: Path  # of the model in the family
    progress: Progress
    told: str
    size: int = SIZE
    _kept: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=KEPT))

    def __post_init__(self) -> None:
        self.problems = askable(self.problems)
        self._kept = _read(self.file)

    @property
    def file(self) -> Path:
        """Where these pilots are kept: all that they depend on but the temperature is in the name."""
        way = {name: value for name, value in self.decoding.document().items() if name != "temperature"}
        about = self.sampler.about
        prompts = self.problems.sort("problem").select("problem", "prompt").rows()
        parts = (self.model, about.fingerprint, about.raw, dict(about.settings), way, self.seed, self.size, prompts)
        return self.folder / "pilots" / f"{seed_of(json.dumps(parts, sort_keys=True, default=str)):016x}.parquet"

    def entropy(self, temperature: float) -> Float:
        """Entropy a token of the law drawn from, for every problem in order."""
        known = self._kept.filter(pl.col("temperature") == temperature)
        if known.height != self.problems.height:
            self.progress(f"{self.told}: pilot at temperature {temperature:g}")
            known = self._drawn(temperature)
            self._kept = pl.concat([self._kept.filter(pl.col("temperature") != temperature), known])
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.file, self._kept)
        rows = self.problems.select("problem").join(known, on="problem", how="left", maintain_order="left")
        return rows["entropy"].to_numpy().astype(np.float64)

    def forget(self) -> None:
        for problem in self.problems["problem"]:
            self.sampler.forget(problem)

    def _drawn(self, temperature: float) -> pl.DataFrame:
        way, rows = replace(self.decoding, temperature=temperature), []
        for batch in self._batches():
            for drawn in self.sampler.sample(batch, way):
                if drawn.trouble:
                    raise OffleashError(
                        f"A pilot of problem {drawn.request.problem!r} could not be drawn: {drawn.trouble}."
                    )
                some = [one for one in drawn.samples if one.tokens]
                if any(one.entropy_sampled is None for one in some):
                    raise no_entropy(self.model)
                each = [(one.entropy_sampled or 0.0) / (one.tokens or 1) for one in some]
                rows.append((drawn.request.problem, temperature, float(np.mean(each)) if each else 0.0))
        return pl.DataFrame(rows, schema=KEPT, orient="row")

    def _batches(self) -> Iterator[list[Request]]:
        """Requests whose seeds do not depend on the temperature, about as many at a time as the sampler likes."""
        many = max(1, self.sampler.appetite // self.size)
        rows = self.problems.select("problem", "prompt", "images").rows()
        for start in range(0, len(rows), many):
            yield [
                Request(problem, prompt, 0, self.size, seed_of(self.seed, "pilot", problem), tuple(images or ()), True)
                for problem, prompt, images in rows[start : start + many]
            ]


def no_entropy(model: str) -> OffleashError:
    """What to do where samples come without token entropies."""
    return OffleashError(
        f"{model} gives no token entropies, so they cannot be made equal; only hf: models do. Name the model as "
        "hf:PATH, or leave out --match."
    )


def _read(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file).select(*KEPT)
    except (OSError, pl.exceptions.PolarsError):  # not there, or damaged: pilots are drawn again
        return pl.DataFrame(schema=KEPT)
