"""Run folders of samples whose verdicts are known."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from offleash.data.run_folder import create_run
from offleash.data.tables import question_hash

Texts = Mapping[str, Sequence[str]]


def run_of_texts(
    folder: Path,
    golds: Mapping[str, str | None],
    texts: Texts,
    verifier: str | None = "math",
    finish: str = "stop",
    shards: int = 1,
) -> Path:
    """A run folder with the texts of every problem, in one or more shards."""
    problems = pl.DataFrame(
        {
            "problem": list(golds),
            "question": [f"What is {problem}?" for problem in golds],
            "hash": [question_hash(f"What is {problem}?") for problem in golds],
            "gold": list(golds.values()),
            "verifier": [verifier] * len(golds),
        },
        schema_overrides={"gold": pl.String, "verifier": pl.String},
    )
    rows = [(problem, index, text) for problem, some in texts.items() for index, text in enumerate(some)]
    frame = pl.DataFrame(rows, schema=["problem", "index", "text"], orient="row").with_columns(finish=pl.lit(finish))
    with create_run(folder, folder.name, problems, {"model": "scripted"}) as run:
        for shard in range(shards):
            run.write_samples(frame.gather_every(shards, shard))
    return folder
