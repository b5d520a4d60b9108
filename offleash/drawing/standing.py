"""What stands in a run folder: which samples there are and how many were correct, read shard by shard."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.data.folder import RunFolder
from offleash.data.samples import SAMPLES, TRUNCATED
from offleash.data.shards import DAMAGE, check_schema, damaged
from offleash.data.verdict import Verdict
from offleash.drawing.schedule import Span, Standing, overlap
from offleash.errors import OffleashError


@dataclass(frozen=True)
class Stands:
    """The samples of a run before a draw adds to them."""

    problems: dict[str, Standing]
    samples: int
    tokens: int
    truncated: int


def standing(run: RunFolder, verifier: str | None) -> Stands:
    """What a run holds; with a verifier also its successes."""
    spans: dict[str, list[Span]] = defaultdict(list)
    hits: dict[str, int] = defaultdict(int)
    samples = tokens = truncated = 0
    for shard in run.sample_shards():
        keys = _read(shard)
        for problem, left, right in spans_of(keys):
            spans[problem].append((left, right))
        samples += keys.height
        tokens += int(keys["tokens"].sum())
        truncated += int((keys["finish"] == TRUNCATED).sum())
        verdicts = run.verdicts_on(verifier, shard.name) if verifier is not None else None
        if verdicts is not None:
            correct = verdicts.filter(pl.col("verdict") == Verdict.CORRECT.value)
            for problem, count in correct.group_by("problem").len().iter_rows():
                hits[problem] += count
    for problem, some in spans.items():
        if (twice := overlap(some)) is not None:
            raise OffleashError(
                f"{run.path} holds sample {twice[0]} of problem {problem!r} twice; see: offleash fsck {run.path}"
            )
    found = {problem: Standing(tuple(sorted(some)), hits[problem]) for problem, some in spans.items()}
    return Stands(found, samples, tokens, truncated)


def drop_orphans(run: RunFolder) -> None:
    """Remove verdicts on shards of samples that are gone: what is drawn again is judged again."""
    run.forget_shards()
    there = {shard.name for shard in run.sample_shards()}
    for shard in run.verdict_shards():
        if shard.name not in there:
            shard.unlink()


def spans_of(keys: pl.DataFrame) -> Iterable[tuple[str, int, int]]:
    """Runs of neighbouring indices (problem, first, end) in a table of (problem, index)."""
    ordered = keys.select("problem", pl.col("index").cast(pl.Int64)).sort("problem", "index")
    shift = (pl.col("index") - pl.int_range(pl.len(), dtype=pl.Int64).over("problem")).alias("shift")
    spans = ordered.group_by("problem", shift).agg(left=pl.col("index").min(), right=pl.col("index").max() + 1)
    return spans.select("problem", "left", "right").sort("problem", "left").iter_rows()


def _read(shard: Path) -> pl.DataFrame:
    check_schema(shard, SAMPLES)
    try:
        return pl.read_parquet(shard, columns=["problem", "index", "tokens", "finish"])
    except DAMAGE as error:
        raise damaged(shard, error) from None
