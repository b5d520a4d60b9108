"""A run: one model on one problem set with one decoding, as tables, wherever they came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import polars as pl

from offleash.data.notes import Note


@dataclass(frozen=True)
class Budget:
    """How many samples a problem were asked for; with `until`, a problem stops at its until-th success."""

    k: int | None = None
    until: int = 0


@dataclass(frozen=True)
class Origin:
    """Who answered a run that offleash drew, and how: all that its samples depend on."""

    model: str  # as the user names it
    about: Mapping[str, object]  # the sampler's word on who answers
    decoding: Mapping[str, object]
    seed: int
    key: str  # the hash that the seeds of all problems derive from
    chunks: Mapping[str, float]  # first, growth, largest: the grid of requests
    thinking: bool  # whether what is asked ends inside a reasoning block
    prompts: str  # hash of all prompts, by problem
    template: str | None  # hash of what a fixed prompt becomes; None where a server makes it


@dataclass(frozen=True)
class Run:
    """Problems, and either verdicts of samples or bare counts of them."""

    name: str
    problems: pl.DataFrame  # PROBLEMS, one row a problem
    verdicts: pl.LazyFrame | None  # VERDICTS, one row a sample; None: counts only
    samples: pl.LazyFrame | None = None  # of SAMPLES: problem, index, tokens, finish, and the rest where it is kept
    counts: pl.DataFrame | None = None  # problem, n, c
    verifier: str | None = None
    budget: Budget = field(default_factory=Budget)
    notes: tuple[Note, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)  # model, decoding, source: what is known of who answered
    unverified_hint: str = ""
    scores: dict[str, pl.LazyFrame] = field(default_factory=dict)  # SCORES of its samples, by the name of the model
    positions: dict[str, pl.LazyFrame] = field(default_factory=dict)  # POSITIONS of their tokens, likewise
    own: str | None = None  # the name under which scores of the model that drew the run stand
    draw: str = ""  # the key of the draw that made the samples; runs that share it hold the same samples


def problem_set_hash(problems: pl.DataFrame) -> str:
    """Hash of a set of problems: of their texts where they are known, else of their ids; blind to their order."""
    keys = problems.select(pl.coalesce("hash", "problem")).to_series().sort()
    return blake2b("\n".join(keys.to_list()).encode(), digest_size=12).hexdigest()
