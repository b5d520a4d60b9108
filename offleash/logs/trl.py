"""TRL (Hugging Face): `completions_STEP.parquet` of GRPOTrainer and RLOOTrainer with log_completions=True.

Columns: `step`, `prompt`, `completion`, `advantage`, one column per reward function, called after it, and whatever a
reward function logs with `log_extra`: often the gold answer (`solution`, `answer`, `ground_truth`). Traps:

* There is no id: a problem is known by its prompt, chat template included, so both runs need the same template. Where
  a gold answer or an image is logged, it separates problems with one prompt.
* Rewards may be of format or length. Which of them says "correct" is guessed from its name, or must be named.
* Each file is of one step or of a few: samples of different steps come from different weights.
* With steps_per_generation or num_iterations above 1, several files in a row hold the same samples; after an
  evaluation, a file may begin with rows of the one before. `skip` finds both, by whole groups with all columns equal.
* An evaluation overwrites the file of its step, and no column says so unless a reward function logs a marker.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.archives import extract_to_disk
from offleash.files.detect import Container, Head
from offleash.files.tabular import parquet_errors
from offleash.logs.format import Format, Log, Options, RolloutFormat, Skip
from offleash.logs.frames import check_maps, check_split
from offleash.logs.generic import parquet_frames
from offleash.logs.training import (
    GOLD,
    IMAGES,
    SPLIT_MARKERS,
    choose_reward,
    column_named,
    evaluation_by_mark,
    overlap,
)

KEYS = {"step", "prompt", "completion", "advantage"}


def recognise(head: Head) -> bool:
    """`advantage` beside step, prompt and completion is written by nothing else."""
    return head.container is Container.PARQUET and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """Whole columns at a time, as generic tables are read: a training run leaves millions of rows."""
    check_maps("trl", options, ("verdict", "gold"))
    check_split(head, options)
    reward = _reward(head, options)
    log = Log("trl", f"TRL reward {reward}", iter(()))
    chosen = {"question": "prompt", "text": "completion", "verdict": reward}
    gold = options.columns.get("gold", column_named(GOLD, set(head.columns) - KEYS - {reward}))
    if gold:
        chosen["gold"] = gold
    images = column_named(IMAGES, head.columns)
    frames = parquet_frames(log, head, options, chosen)
    log.frames = _with_images(frames, path, images) if images else frames
    log.notes += [Note(f"{path.name}: the verdict is the reward {reward}."), *_steps(path, options)]
    log.notes += _mixed_split_notes(path, head, options)
    return log


def skip(paths: Sequence[Path]) -> dict[Path, Skip]:
    """The rows at the start of a file that are the last ones of the file before it in the same folder."""
    repeated: dict[Path, Skip] = {}
    before: tuple[Path, pl.DataFrame] | None = None
    for path in paths:
        try:
            with parquet_errors(path):
                rows = pl.read_parquet(extract_to_disk(path), glob=False)
        except OffleashError:  # said again, with the same words, when it is read
            before = None
            continue
        rows = rows.drop("step", strict=False)
        if before is not None and before[0].parent == path.parent and (size := overlap(before[1], rows)):
            why = f"{before[0].name} has the same samples: a generated batch is logged at every step that trains on it"
            repeated[path] = Skip(why, None if size == rows.height else size)
        before = (path, rows)
    return repeated


def _reward(head: Head, options: Options) -> str:
    """The reward that says whether a sample is correct."""
    with parquet_errors(head.path):
        schema = pl.scan_parquet(extract_to_disk(head.path), glob=False).collect_schema()
    other = KEYS | {name for name in schema if name.lower() in (*GOLD, *IMAGES, *SPLIT_MARKERS)}
    rewards = [name for name, kind in schema.items() if name not in other and (kind.is_numeric() or kind == pl.Boolean)]
    return choose_reward(rewards, head, options)


def _with_images(frames: Iterator[pl.DataFrame], path: Path, column: str) -> Iterator[pl.DataFrame]:
    """The frames with the hashes of the images that a prompt was about."""
    for frame in frames:
        first, last = int(frame["row"][0]), int(frame["row"][-1])  # rows of Parquet are in order, one sample each
        with parquet_errors(path):
            images = (
                pl.scan_parquet(extract_to_disk(path), glob=False)
                .select(column)
                .slice(first - 1, last - first + 1)
                .collect()
            )
        hashes = [content_hashes(images=value) for value in images[column].to_list()]
        table: Mapping[str, object] = {"row": range(first, last + 1), "contents": hashes}
        contents = pl.DataFrame(table, schema={"row": frame.schema["row"], "contents": pl.String})
        yield frame.drop("contents").join(contents, on="row", how="left", maintain_order="left").select(frame.columns)


def _steps(path: Path, options: Options) -> list[Note]:
    """Samples of several steps come from different weights."""
    if options.split_by == "step":
        return []
    with parquet_errors(path):
        steps = (
            pl.scan_parquet(extract_to_disk(path), glob=False)
            .select(pl.col("step").unique().sort())
            .collect()["step"]
            .to_list()
        )
    if len(steps) < 2:
        return [Note(f"{path.name}: samples of training step {steps[0]}.")]
    steps_note = f"samples of {len(steps)} training steps, {steps[0]} to {steps[-1]}, are drawn from different weights"
    return [Note(f"{path.name}: {steps_note}; --split-by step keeps them apart.")]


def _mixed_split_notes(path: Path, head: Head, options: Options) -> list[Note]:
    """Rows of an evaluation among those of the training, where a column says which are which."""
    marker = column_named(SPLIT_MARKERS, set(head.columns) - KEYS)
    if marker is None or options.split_by == marker:
        return []
    with parquet_errors(path):
        values = (
            pl.scan_parquet(extract_to_disk(path), glob=False)
            .select(pl.col(marker).cast(pl.String, strict=False))
            .collect()
        )
    names = sorted(values[marker].drop_nulls().unique().to_list())
    if len(names) < 2:
        return []
    split_note = f"{marker} is {' or '.join(names[:3])}: rows of training and of evaluation may be mixed"
    return [Note(f"{path.name}: {split_note}; --split-by {marker} keeps them apart.")]


FORMAT = Format(
    "trl",
    "TRL GRPO completions (log_completions=True)",
    recognise,
    read,
    ("completions_00010.parquet",),
    skip,
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), evaluation_by_mark),
)
