"""Aligning runs: the same problem in each, by the hash of its text or else its id, and the same decoding.

What a model reaches depends on how it is sampled, so two runs that are known to differ in that are refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from offleash.data.run import Run
from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown


@dataclass(frozen=True)
class Alignment:
    """Problems that all runs have, and for each run its own name of them."""

    problems: pl.DataFrame  # PROBLEMS of the first run, filled from the others
    own: tuple[pl.DataFrame, ...]  # for each run: own (its id), problem (the first run's id)
    left_out: tuple[int, ...]  # for each run: problems that some other run lacks


def match(runs: Sequence[Run]) -> Alignment:
    """The problems common to all runs, matched by the hash of their text and else by id.

    Raises:
        OffleashError: no problem is common, or one id has different texts in two runs.
    """
    first = runs[0].problems.sort("problem")  # so that nothing depends on the order of a file
    # every run is matched with the first, whose ids name the problems from here on
    own = [first.select(own="problem", problem="problem")]
    for run in runs[1:]:
        own.append(_pair(runs[0], run))
    common = own[0]["problem"]
    for other in own[1:]:
        common = common.filter(common.is_in(other["problem"].implode()))
    if not common.len():
        names = " and ".join(repr(run.name) for run in runs)
        examples = " and ".join(repr(run.problems["problem"][0]) for run in runs)
        raise OffleashError(
            f"{names} have no problem in common (first ids: {examples}). Problems are matched by text, else by id; "
            "set the id column with --map problem=COLUMN."
        )
    kept = [frame.filter(pl.col("problem").is_in(common.implode())) for frame in own]
    problems = _fill_missing(first.filter(pl.col("problem").is_in(common.implode())), runs, kept)
    return Alignment(problems, tuple(kept), tuple(run.problems.height - common.len() for run in runs))


def _pair(first: Run, other: Run) -> pl.DataFrame:
    """Which problem of another run (own) is which of the first; text beats id, as tools number problems differently."""
    left = first.problems.select("problem", "hash")
    right = other.problems.select(own="problem", hash="hash")
    by_text = _unique_rows(left, "hash").join(_unique_rows(right, "hash"), on="hash").select("own", "problem")
    rest_left = left.join(by_text, on="problem", how="anti")
    rest_right = right.join(by_text, on="own", how="anti")
    by_id = rest_left.join(rest_right, left_on="problem", right_on="own", suffix="_other")
    different = by_id.filter(pl.col("hash") != pl.col("hash_other"))
    if different.height:
        label = different["problem"][0]
        texts = [run.problems.filter(pl.col("problem") == label)["question"][0] or "" for run in (first, other)]
        raise OffleashError(
            f"Problem {label!r} has different texts in {first.name!r} ({texts[0][:60]!r}) and {other.name!r} "
            f"({texts[1][:60]!r}). They are not the same problem: set the id column with --map problem=COLUMN, or "
            "the text column with --map question=COLUMN."
        )
    # problems that share a text within a run are matched by id
    return pl.concat([by_text, by_id.select(own="problem", problem="problem")])


def _unique_rows(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The rows whose value occurs once: a text that is there twice cannot identify a problem."""
    return frame.filter(pl.col(column).is_not_null() & (pl.len().over(column) == 1))


def _fill_missing(problems: pl.DataFrame, runs: Sequence[Run], own: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Texts, golds, benchmarks and floors that the first run lacks, from the others."""
    columns = ["question", "gold", "benchmark", "guess"]
    for run, names in zip(runs[1:], own[1:], strict=True):
        theirs = run.problems.rename({"problem": "own"}).join(names, on="own").select("problem", *columns)
        problems = problems.join(theirs, on="problem", how="left", suffix="_other", maintain_order="left")
        problems = problems.with_columns(pl.coalesce(column, f"{column}_other").alias(column) for column in columns)
        problems = problems.drop(f"{column}_other" for column in columns)
    return problems


# Decoding: two runs that were sampled differently are refused, or noted with --allow decoding.


DECODING = "decoding"
ALLOWED = (DECODING,)  # what --allow may name
STOP = "stop"  # texts that end a sample
NAMES = ("temperature", "top_p", "top_k", "min_p", "max_tokens")  # numbers that decide what a model can reach


def allowed(words: Sequence[str]) -> frozenset[str]:
    """What may differ between runs, from the words of --allow."""
    for word in words:
        if word not in ALLOWED:
            raise unknown("value of --allow", word, ALLOWED)
    return frozenset(words)


def same_decoding(before: Run, after: Run, allow: frozenset[str]) -> tuple[Note, ...]:
    """Refuse two runs that are known to have been drawn with different decoding, or note it where that is allowed."""
    differing = _differing_settings(before, after)
    if not differing:
        return ()
    settings = ", ".join(f"{name} {was} vs {now}" for name, was, now in differing)
    if DECODING in allow:
        return (
            Note(
                f"{before.name} and {after.name} were drawn with different decoding ({settings}), accepted with --allow"
            ),
        )
    raise OffleashError(
        f"{before.name!r} and {after.name!r} were drawn with different decoding: {settings}. A comparison would "
        "confound decoding with training: draw both with the same decoding (offleash sweep compares several), or "
        "compare them anyway with --allow decoding."
    )


def _differing_settings(before: Run, after: Run) -> list[tuple[str, str, str]]:
    """Settings that both runs record and that differ, as (name, before, after); an unrecorded one is no conflict."""
    before_settings, after_settings = _decoding_settings(before), _decoding_settings(after)
    return [
        (name, before_settings[name], after_settings[name])
        for name in before_settings
        if name in after_settings and before_settings[name] != after_settings[name]
    ]


def _decoding_settings(run: Run) -> dict[str, str]:
    """A run's decoding in canonical text, so that 1 and 1.0 are equal; empty where it records none."""
    try:
        document = json.loads(run.facts.get("decoding", "{}"))
    except ValueError:  # a log may describe its decoding in free text
        return {}
    settings = document if isinstance(document, Mapping) else {}
    numbers = {name: value for name in NAMES if isinstance(value := settings.get(name), int | float)}
    known = {name: f"{value:.9g}" for name, value in numbers.items() if math.isfinite(value)}
    stop = settings.get(STOP)
    return known | ({STOP: json.dumps(sorted(map(str, stop)), ensure_ascii=True)} if isinstance(stop, list) else {})
